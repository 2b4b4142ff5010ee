#include "nfs/mount/program.h"

#include <algorithm>
#include <string>

#include "base/host.h"
#include "nfs/caller.h"
#include "rpc/client_key.h"
#include "rpc/handle.h"

namespace penstock::nfs::mount {

using namespace mount3;  // NOLINT: the protocol's own names, RFC 1813 §5

namespace {

mountstat3 ToStatus(fs::Error error) {
  switch (error) {
    case fs::Error::kPerm:
      return MNT3ERR_PERM;
    case fs::Error::kNoEnt:
    case fs::Error::kStale:
      return MNT3ERR_NOENT;
    case fs::Error::kIo:
      return MNT3ERR_IO;
    case fs::Error::kAccess:
    case fs::Error::kCovered:
      return MNT3ERR_ACCES;
    case fs::Error::kNotDir:
      return MNT3ERR_NOTDIR;
    case fs::Error::kInvalid:
    case fs::Error::kBadName:
      return MNT3ERR_INVAL;
    case fs::Error::kNameTooLong:
      return MNT3ERR_NAMETOOLONG;
    case fs::Error::kNotSupported:
      return MNT3ERR_NOTSUPP;
    default:
      return MNT3ERR_SERVERFAULT;
  }
}

// The status of versions 1 and 2 is a UNIX error number (RFC 1094 §A.4.2). Most values of version 3 are such numbers.
constexpr uint32_t kUnixIoError = 5;
uint32_t ToUnixError(mountstat3 status) {
  return status == MNT3ERR_NOTSUPP || status == MNT3ERR_SERVERFAULT ? kUnixIoError : static_cast<uint32_t>(status);
}

bool LeadsUp(std::string_view path) {
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    if (component == "..") return true;
    path.remove_prefix(std::min(component.size() + 1, path.size()));
  }
  return false;
}

// Looks up one component after the other from the export's root. It follows no symbolic link. Requires a path that does
// not lead up.
Task<fs::Result<fs::Handle>> Walk(const Export& from, const fs::RequestContext& caller, std::string_view path) {
  fs::FileSystem& file_system = from.file_system();
  fs::Handle place = file_system.Root();
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(component.size() + 1, path.size()));
    if (component.empty() || component == ".") continue;
    const auto step = co_await file_system.Lookup(caller, place, component);
    if (!step.result) co_return std::unexpected(step.result.error());
    if (step.result->attributes.type != fs::FileType::kDirectory) co_return std::unexpected(fs::Error::kNotDir);
    place = step.result->handle;
  }
  // The root of the export may be gone as well.
  const auto attributes = co_await file_system.GetAttributes(caller, place);
  if (!attributes) co_return std::unexpected(attributes.error());
  co_return place;
}

std::string HostOf(const rpc::CallContext& context) { return Unmapped(context.peer.address.address()).to_string(); }

}  // namespace

uint32_t Program::number() const { return MOUNT_PROGRAM; }

rpc::VersionRange Program::versions() const {
  return {.low = served_ == Versions::kThree ? MOUNT_V3 : mount1::MOUNT_V1, .high = MOUNT_V3};
}

// The versions share the procedures up to EXPORT, except MNT. Their arguments and results have the same encoding.
Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const bool is_shared =
      context.procedure <= MOUNTPROC3_EXPORT::kNumber && context.procedure != MOUNTPROC3_MNT::kNumber;
  if (context.version != MOUNT_V3 && !is_shared) return CallFirst(context, arguments, results);
  switch (context.procedure) {
    case MOUNTPROC3_NULL::kNumber:
      return rpc::Handle<MOUNTPROC3_NULL>(context, arguments, results,
                                          [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case MOUNTPROC3_MNT::kNumber:
      return rpc::Handle<MOUNTPROC3_MNT>(context, arguments, results,
                                         [this](rpc::CallContext& c, const dirpath& path) { return Mount(c, path); });
    case MOUNTPROC3_DUMP::kNumber:
      return Dump(arguments, results);
    case MOUNTPROC3_UMNT::kNumber:
      return rpc::Handle<MOUNTPROC3_UMNT>(
          context, arguments, results, [this](rpc::CallContext& c, const dirpath& path) { return Unmount(c, path); });
    case MOUNTPROC3_UMNTALL::kNumber:
      return rpc::Handle<MOUNTPROC3_UMNTALL>(context, arguments, results,
                                             [this](rpc::CallContext& c, const xdr::Void&) { return UnmountAll(c); });
    case MOUNTPROC3_EXPORT::kNumber:
      return ListExports(arguments, results);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

// The procedures of versions 1 and 2 that version 3 does not have in the same form.
Task<rpc::AcceptStatus> Program::CallFirst(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (context.procedure) {
    case mount1::MOUNTPROC1_MNT::kNumber:
      return rpc::Handle<mount1::MOUNTPROC1_MNT>(
          context, arguments, results,
          [this](rpc::CallContext& c, const mount1::dirpath& path) { return MountFirst(c, path); });
    case mount1::MOUNTPROC1_EXPORTALL::kNumber:
      return ListExports(arguments, results);
    case mount1::MOUNTPROC2_PATHCONF::kNumber:
      if (context.version != mount1::MOUNT_V2) return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
      return rpc::Handle<mount1::MOUNTPROC2_PATHCONF>(
          context, arguments, results,
          [this](rpc::CallContext& c, const mount1::dirpath& path) { return PathConfiguration(c, path); });
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

Task<Result<Program::Place, mountstat3>> Program::Find(rpc::CallContext& context, std::string_view path) {
  auto table = exports_.Get();
  const ExportTable::Place place = table->Resolve(path);
  const auto admits = [&](const auto& each) { return each->Admits(context.peer); };
  if (!place.found && std::ranges::any_of(table->all(), admits)) {
    exports_.refusals().RefusePath(context.peer.address, path);
    co_return std::unexpected(MNT3ERR_NOENT);
  }
  if (!place.found) {
    // A client that no export admits must not learn which paths exist.
    exports_.refusals().RefuseAll(context.peer.address);
    co_return std::unexpected(MNT3ERR_ACCES);
  }
  const Export& found = *place.found;
  const ExportOptions* const admitted = found.OptionsFor(context.peer);
  if (!admitted || Export::FlavorsFor(context.peer, *admitted).empty()) {
    exports_.refusals().Refuse(context.peer.address, found);
    co_return std::unexpected(MNT3ERR_ACCES);
  }
  // The reply has only a handle and the export's flavors, so that plain TCP and UDP will do: Linux's client mounts this
  // way even with xprtsec=tls. Over RDMA no connection of the export's kind can follow.
  if (context.peer.transport == rpc::TransportKind::kRdma && !Export::AdmitsProtection(context.peer, *admitted)) {
    exports_.refusals().RefuseProtection(context.peer, found);
    context.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    co_return std::unexpected(MNT3ERR_ACCES);
  }
  // Any flavor but AUTH_NONE is accepted for each export: the reply has only a handle and the export's flavors.
  // Linux 6.1 always mounts this way.
  const SecurityFlavor flavor = nfs_protocol::FlavorOf(context.credential);
  const ExportOptions& options = *admitted;
  if (flavor == SecurityFlavor::kNone && !options.security.Has(flavor)) {
    exports_.refusals().RefuseFlavor(context, found, options.security);
    context.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    co_return std::unexpected(MNT3ERR_ACCES);
  }

  if (found.is_referral()) {
    exports_.refusals().CannotRefer(context.peer.address, found);
    co_return std::unexpected(MNT3ERR_NOTSUPP);
  }

  if (LeadsUp(place.rest)) {
    exports_.refusals().RefuseWay(context.peer.address, found, path,
                                  "the server follows no \"..\", which could lead out of the export");
    co_return std::unexpected(MNT3ERR_ACCES);
  }

  const Caller caller(options, context.credential, context.peer);
  const auto directory = co_await Walk(found, caller.context(), place.rest);
  if (!directory) {
    if (directory.error() == fs::Error::kStale) {
      exports_.refusals().Miss(context.peer.address, found);
    } else if (directory.error() == fs::Error::kCovered) {
      exports_.refusals().RefuseWay(context.peer.address, found, path,
                                    "another export serves this directory, which has another path there");
    } else {
      exports_.refusals().HandleFailure({.call = context,
                                         .operation = "MOUNTPROC_MNT",
                                         .status = static_cast<uint32_t>(ToStatus(directory.error())),
                                         .in = &found,
                                         .root_is_squashed = IsSquashedRoot(context.credential, caller.context())});
    }
    co_return std::unexpected(ToStatus(directory.error()));
  }
  co_return Place{std::move(table), &found, &options, *directory};
}

// RFC 1813 §5.2.1
Task<mountres3> Program::Mount(rpc::CallContext& context, const dirpath& path) {
  const auto place = co_await Find(context, path);
  if (!place) {
    context.outcome.status = static_cast<uint32_t>(place.error());
    co_return mountres3(place.error());
  }
  mounts_.Add(HostOf(context), path);
  mountres3_ok ok;
  ok.fhandle.Assign(EncodedHandle({place->exported->id(), place->directory}).bytes());
  for (const SecurityFlavor each : place->options->security) {
    ok.auth_flavors.push_back(static_cast<int32_t>(NumberOf(each)));
  }
  co_return mountres3(MNT3_OK, std::move(ok));
}

// RFC 1094 §A.5.2. A directory whose handle does not fit into 32 octets cannot be mounted.
Task<mount1::fhstatus> Program::MountFirst(rpc::CallContext& context, const mount1::dirpath& path) {
  const auto place = co_await Find(context, path);
  if (!place) {
    context.outcome.status = static_cast<uint32_t>(place.error());
    co_return mount1::fhstatus(ToUnixError(place.error()));
  }
  const auto padded = place->exported->PaddedHandleOf(place->directory);
  if (!padded) co_return mount1::fhstatus(kUnixIoError);
  mounts_.Add(HostOf(context), path);
  co_return mount1::fhstatus(0, *padded);
}

// The limits of the directory's file system, for clients of NFS version 2, which has no procedure for them.
Task<mount1::ppathcnf> Program::PathConfiguration(rpc::CallContext& context, const mount1::dirpath& path) {
  const auto place = co_await Find(context, path);
  if (!place) co_return mount1::ppathcnf{.mask = {mount1::PC_ERROR_ALL, 0}};
  const fs::Properties& properties = place->exported->file_system().GetProperties();
  // A server knows nothing about the client's terminals and pipes.
  const uint32_t unknown =
      mount1::PC_ERROR_MAX_CANON | mount1::PC_ERROR_MAX_INPUT | mount1::PC_ERROR_PIPE_BUF | mount1::PC_ERROR_VDISABLE;
  const uint32_t properties_mask = (properties.chown_restricted ? mount1::PC_CHOWN_RESTRICTED : 0) |
                                   (properties.no_truncate ? mount1::PC_NO_TRUNC : 0);
  co_return mount1::ppathcnf{.link_max = static_cast<int32_t>(std::min<uint32_t>(properties.link_max, INT32_MAX)),
                             .name_max = static_cast<int32_t>(std::min(properties.name_max, mount1::MNTNAMLEN)),
                             .path_max = mount1::MNTPATHLEN,
                             .mask = {static_cast<int32_t>(unknown | properties_mask), 0}};
}

// RFC 1813 §5.2.2
Task<rpc::AcceptStatus> Program::Dump(xdr::Decoder& arguments, xdr::Encoder& results) {
  if (!arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  const std::vector<MountList::Entry> entries = mounts_.Entries();
  mountlist list;
  for (const auto& entry : entries) list.push_back({.ml_hostname = entry.host, .ml_directory = entry.directory});
  xdr::Encode(results, list);
  co_return rpc::AcceptStatus::SUCCESS;
}

// RFC 1813 §5.2.3
xdr::Void Program::Unmount(rpc::CallContext& context, const dirpath& path) {
  mounts_.Remove(HostOf(context), path);
  return {};
}

// RFC 1813 §5.2.4
xdr::Void Program::UnmountAll(rpc::CallContext& context) {
  mounts_.RemoveAll(HostOf(context));
  return {};
}

// RFC 1813 §5.2.5. An empty list of groups means all hosts.
Task<rpc::AcceptStatus> Program::ListExports(xdr::Decoder& arguments, xdr::Encoder& results) {
  if (!arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  const auto table = exports_.Get();
  for (const auto& each : table->all()) {
    if (each->is_referral()) continue;  // it cannot be mounted
    std::vector<std::string> clients;
    const auto is_everyone = [](const Admission& one) { return one.clients == ClientSpec(); };
    if (!std::ranges::any_of(each->admissions(), is_everyone)) {
      for (const Admission& one : each->admissions()) clients.push_back(one.clients.ToString());
    }
    exportnode node{.ex_dir = each->path()};
    for (const std::string& client : clients) node.ex_groups.push_back({.gr_name = client});
    results.Bool(true);
    xdr::Encode(results, node);
  }
  results.Bool(false);
  co_return rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::nfs::mount
