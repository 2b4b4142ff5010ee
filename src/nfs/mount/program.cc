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

// Looks up one component after the other from the export's root. It follows no symbolic link and never goes up.
Task<fs::Result<fs::Handle>> Walk(const Export& from, const fs::RequestContext& caller, std::string_view path) {
  fs::FileSystem& file_system = from.file_system();
  fs::Handle place = file_system.Root();
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(component.size() + 1, path.size()));
    if (component.empty() || component == ".") continue;
    if (component == "..") co_return std::unexpected(fs::Error::kAccess);
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

rpc::VersionRange Program::versions() const { return {.low = MOUNT_V3, .high = MOUNT_V3}; }

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
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

// RFC 1813 §5.2.1
Task<mountres3> Program::Mount(rpc::CallContext& context, const dirpath& path) {
  const Exports::Place place = exports_.Resolve(path);
  const auto admits = [&](const auto& each) { return each->Admits(context.peer); };
  if (!place.found && std::ranges::any_of(exports_.all(), admits)) co_return mountres3(MNT3ERR_NOENT);
  if (!place.found) {
    // A client that no export admits must not learn which paths exist.
    exports_.RefuseAll(context.peer.address);
    co_return mountres3(MNT3ERR_ACCES);
  }
  const Export& found = *place.found;
  if (!found.Admits(context.peer)) {
    exports_.Refuse(context.peer.address, found);
    co_return mountres3(MNT3ERR_ACCES);
  }
  // Any flavor but AUTH_NONE is accepted for each export: the reply has only a handle and the export's flavors.
  // Linux 6.1 always mounts this way.
  const SecurityFlavors& flavors = found.options().security;
  const SecurityFlavor flavor = FlavorOf(context.credential);
  if (flavor == SecurityFlavor::kNone && !flavors.Has(flavor)) {
    context.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    co_return mountres3(MNT3ERR_ACCES);
  }

  const Caller caller(found.options(), context.credential, context.peer);
  const auto directory = co_await Walk(found, caller.context(), place.rest);
  if (!directory) {
    if (directory.error() == fs::Error::kStale) exports_.Miss(context.peer.address, found);
    co_return mountres3(ToStatus(directory.error()));
  }

  mounts_.Add(HostOf(context), path);
  mountres3_ok ok;
  ok.fhandle.Assign(EncodedHandle({found.id(), *directory}).bytes());
  for (const SecurityFlavor each : flavors) ok.auth_flavors.push_back(static_cast<int32_t>(NumberOf(each)));
  co_return mountres3(MNT3_OK, std::move(ok));
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
  for (const auto& each : exports_.all()) {
    std::vector<std::string> networks;
    for (const Network& network : each->options().clients) networks.push_back(network.ToString());
    exportnode node{.ex_dir = each->path()};
    for (const std::string& network : networks) node.ex_groups.push_back({.gr_name = network});
    results.Bool(true);
    xdr::Encode(results, node);
  }
  results.Bool(false);
  co_return rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::nfs::mount
