#include "client/nfs3/posix_acls.h"

#include "client/nfs3/convert.h"
#include "protocol/nfsacl.h"

namespace penstock::client::v3 {
namespace {

constexpr uint32_t kAll = nfsacl::NA_ACL | nfsacl::NA_ACLCNT | nfsacl::NA_DFACL | nfsacl::NA_DFACLCNT;

std::vector<PosixAce> EntriesOf(const auto& from, uint32_t flags) {
  std::vector<PosixAce> entries;
  for (const nfsacl::aclent& each : from) entries.push_back({each.type & ~flags, each.id, each.perm});
  return entries;
}

// Adds `flags` to each type.
void Fill(auto& to, uint32_t& count, const std::vector<PosixAce>& entries, uint32_t flags) {
  for (const PosixAce& each : entries) to.push_back({each.type | flags, each.id, each.permissions});
  count = static_cast<uint32_t>(entries.size());
}

// The server may serve NFS without NFSACL.
template <class Procedure>
Task<Result<rpc::Reply<typename Procedure::Results>>> CallAcl(const Caller& caller,
                                                              const typename Procedure::Arguments& arguments,
                                                              std::string_view what) {
  if (std::same_as<Procedure, nfsacl::ACLPROC3_SETACL> && caller.read_only) co_return std::unexpected(ReadOnly(what));
  auto reply = co_await Call<Procedure>(caller, arguments, what);
  if (!reply && reply.error().number == EPROTONOSUPPORT) {
    co_return std::unexpected(ErrorOf(Status::kNotSupported, what));
  }
  co_return reply;
}

}  // namespace

Task<Result<PosixAcl>> GetPosixAcl(const Caller& caller, const Handle& object, std::string_view what) {
  const nfsacl::GETACL3args arguments{ToHandle3(object), kAll};
  auto reply = co_await CallAcl<nfsacl::ACLPROC3_GETACL>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfsacl::secattr& lists = reply->results.resok().acl;
  co_return PosixAcl{.access = EntriesOf(lists.access, 0),
                     .defaults = EntriesOf(lists.defaults, nfsacl::NA_ACL_DEFAULT)};
}

Task<Result<void>> SetPosixAcl(const Caller& caller, const Handle& object, std::string_view what, const PosixAcl& acl) {
  if (acl.access.size() > nfsacl::NFS_ACL_MAX_ENTRIES || acl.defaults.size() > nfsacl::NFS_ACL_MAX_ENTRIES) {
    co_return std::unexpected(ErrorOf(Status::kInvalid, what));
  }
  nfsacl::SETACL3args arguments;
  arguments.fh = ToHandle3(object);
  arguments.acl.mask = kAll;
  Fill(arguments.acl.access, arguments.acl.aclcnt, acl.access, 0);
  Fill(arguments.acl.defaults, arguments.acl.dfaclcnt, acl.defaults, nfsacl::NA_ACL_DEFAULT);
  auto reply = co_await CallAcl<nfsacl::ACLPROC3_SETACL>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

}  // namespace penstock::client::v3
