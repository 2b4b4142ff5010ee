#include "server/interfaces.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/engine/compound_head.h"
#include "protocol/mount.h"
#include "protocol/mount1.h"
#include "protocol/nfs2.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_sess01.h"
#include "protocol/nfs4_types.h"
#include "protocol/nfsacl.h"
#include "protocol/nlm.h"
#include "protocol/nlm4.h"
#include "protocol/nsm.h"
#include "protocol/rpcb.h"
#include "protocol/rquota.h"
#include "xdr/describe.h"

namespace penstock::server {
namespace {

using metrics::Interface;
using metrics::StatusPlace;

template <class Status>
std::string_view NameOf(uint32_t status) {
  return XdrName(static_cast<Status>(status));
}
std::string_view NoName(uint32_t /*status*/) { return {}; }

// Where the results of a type have their status. All protocols here begin their results with it, but NLM, whose results
// begin with the caller's cookie.
template <class Results>
consteval StatusPlace PlaceIn() {
  if constexpr (xdr::EnumType<Results> || xdr::UnionType<Results>) {
    return StatusPlace::kFirst;
  } else if constexpr (xdr::StructType<Results>) {
    auto place = StatusPlace::kNone;
    size_t index = 0;
    bool behind_opaque = false;
    Results::Members([&]<class Member>(std::string_view, Member Results::*) {
      if (index == 0 && xdr::EnumType<Member>) place = StatusPlace::kFirst;
      if (index == 0) behind_opaque = xdr::StructType<Member> || xdr::VariableBytes<Member>;
      if (index == 1 && behind_opaque && place == StatusPlace::kNone) place = StatusPlace::kAfterOpaque;
      ++index;
      return true;
    });
    return place;
  } else {
    return StatusPlace::kNone;
  }
}

// "NFSPROC3_READ" becomes "READ".
std::string ShortName(std::string_view name) { return std::string(name.substr(name.find('_') + 1)); }

template <class Procedures>
Interface Describe(std::string program, std::string version, std::string_view (*status_name)(uint32_t)) {
  Interface interface;
  interface.program = std::move(program);
  interface.version = std::move(version);
  interface.status_name = status_name;
  Procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    interface.key = {Procedure::kProgram, static_cast<uint16_t>(Procedure::kVersion)};
    interface.operations.push_back(
        {Procedure::kNumber, ShortName(Procedure::kName), PlaceIn<typename Procedure::Results>()});
  });
  return interface;
}

// Describes a dialect of NFS version 4.
Interface Describe(const nfs::v4::Dialect& dialect, std::string version, uint16_t variant) {
  Interface interface{.key = {nfs4::NFS4_PROGRAM, nfs4::NFS_V4, variant},
                      .program = "NFS",
                      .version = std::move(version),
                      .operations = {{nfs4::NFSPROC4_COMPOUND::kNumber, "COMPOUND"}},
                      .status_name = &NameOf<nfs4::nfsstat4>};
  constexpr auto kFirst = static_cast<uint32_t>(nfs4::OP_ACCESS);
  constexpr auto kMore = static_cast<uint32_t>(nfs4::OP_OPERATION_CONTROL);
  constexpr uint32_t kMost = 128;
  for (const uint32_t first : {kFirst, kMore}) {
    for (uint32_t number = first; number < first + kMost; ++number) {
      const auto operation = static_cast<nfs4::nfs_opnum4>(number);
      if (dialect.Find(operation)) interface.operations.push_back({number, ShortName(XdrName(operation))});
    }
  }
  return interface;
}

}  // namespace

std::vector<Interface> MeasuredInterfaces() {
  using namespace nfs::v4;  // NOLINT: for two functions
  std::vector<Interface> all;
  // The most frequent ones first, because the counters search from the beginning.
  all.push_back(Describe<nfs3::NFS_V3_procedures>("NFS", "3", &NameOf<nfs3::nfsstat3>));
  for (const uint32_t minor : {2, 1, 0}) {
    all.push_back(Describe(*FindDialect(MinorVersion(minor)), fmt::format("4.{}", minor), minor + 1));
  }
  all.push_back(Describe<nfs4::NFS_V4_procedures>("NFS", "4", &NameOf<nfs4::nfsstat4>));
  all.push_back(Describe(DialectOfBoundSessions(), "4.1-sess01", metrics::kSess01Variant));
  all.push_back(Describe<nfs2::NFS_VERSION_procedures>("NFS", "2", &NameOf<nfs2::nfsstat>));
  all.push_back(Describe<nfsacl::NFS_ACL_V3_procedures>("NFSACL", "3", &NameOf<nfs3::nfsstat3>));
  all.push_back(Describe<nfsacl::NFS_ACL_V2_procedures>("NFSACL", "2", &NameOf<nfs2::nfsstat>));
  all.push_back(Describe<nlm4::NLM4_VERS_procedures>("NLM", "4", &NameOf<nlm4::nlm4_stats>));
  all.push_back(Describe<nlm1::NLM_VERS_procedures>("NLM", "1", &NameOf<nlm1::nlm_stats>));
  all.push_back(Describe<nlm1::NLM_VERSX_procedures>("NLM", "3", &NameOf<nlm1::nlm_stats>));
  all.push_back(Describe<nsm::SM_VERS_procedures>("NSM", "1", &NameOf<nsm::sm_res>));
  all.push_back(Describe<mount3::MOUNT_V3_procedures>("MOUNT", "3", &NameOf<mount3::mountstat3>));
  all.push_back(Describe<mount1::MOUNT_V1_procedures>("MOUNT", "1", &NameOf<nfs2::nfsstat>));
  all.push_back(Describe<mount1::MOUNT_V2_procedures>("MOUNT", "2", &NameOf<nfs2::nfsstat>));
  all.push_back(Describe<rquota::RQUOTAVERS_procedures>("RQUOTA", "1", &NameOf<rquota::qr_status>));
  all.push_back(Describe<rquota::EXT_RQUOTAVERS_procedures>("RQUOTA", "2", &NameOf<rquota::qr_status>));
  all.push_back(Describe<pmap::PMAP_VERS_procedures>("PORTMAP", "2", &NoName));
  all.push_back(Describe<pmap::RPCBVERS_procedures>("PORTMAP", "3", &NoName));
  all.push_back(Describe<pmap::RPCBVERS4_procedures>("PORTMAP", "4", &NoName));
  // The results of RQUOTA count from one, and those of the port mapper have no status.
  for (Interface& each : all) {
    if (each.program == "RQUOTA") each.zero_is_ok = false;
    if (each.program != "PORTMAP") continue;
    for (metrics::Operation& operation : each.operations) operation.status = StatusPlace::kNone;
  }
  return all;
}

}  // namespace penstock::server
