// LOOKUP, LOOKUPP, READLINK, SECINFO, SECINFO_NO_NAME.
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

Task<Result<Place, nfsstat4>> Find(Compound& compound, std::string_view name, fs::RequestContext caller) {
  if (const nfsstat4 status = CheckName(name); status != NFS4_OK) co_return std::unexpected(status);
  const Object& directory = *compound.current;
  const auto found = co_await directory.file_system().Lookup(caller, directory.object(), name);
  // The client may search the directory, so the root of an export replaces the entry.
  if (found.result || found.result.error() == fs::Error::kNoEnt || found.result.error() == fs::Error::kCovered) {
    const auto junctions = co_await compound.names->JunctionsIn(directory, compound.call.peer, name);
    if (!junctions.empty()) {
      const Export* leads_to = junctions.front().leads_to;
      if (!leads_to) co_return std::unexpected(NFS4ERR_NOENT);
      co_return Place{leads_to, leads_to->file_system().Root()};
    }
  }
  if (!found.result) co_return std::unexpected(StatusInDirectory(found.result.error(), found.attributes));
  co_return Place{&directory.in(), found.result->handle};
}

Task<Result<Place, nfsstat4>> FindParent(Compound& compound) {
  const Object& directory = *compound.current;
  const Namespace& names = *compound.names;
  if (names.IsTop(directory)) {
    const auto parent = co_await names.ParentOfTop(directory, compound.call.peer);
    if (!parent) co_return std::unexpected(ToStatus(parent.error()));
    co_return *parent;
  }
  const auto found = co_await directory.file_system().Lookup(directory.context(), directory.object(), "..");
  if (!found.result) co_return std::unexpected(StatusInDirectory(found.result.error(), found.attributes));
  co_return Place{&directory.in(), found.result->handle};
}

// Returns the flavors that a client may use there, in the operator's order of preference (RFC 8881 §18.29.3).
SECINFO4res Describe(const SecurityFlavors& flavors) {
  SECINFO4resok described;
  for (const SecurityFlavor flavor : flavors) {
    const auto services = ServicesOf(flavor);
    if (services.empty()) described.emplace_back(static_cast<rpc::AuthFlavor>(NumberOf(flavor)));
    for (const rpc::GssService service : services) {
      const ConstBytes oid = rpc::OidOf(MechanismOf(flavor));
      described.emplace_back(rpc::AuthFlavor::RPCSEC_GSS,
                             rpcsec_gss_info{.oid = oid, .qop = 0, .service = static_cast<rpc_gss_svc_t>(service)});
    }
  }
  return SECINFO4res(NFS4_OK, std::move(described));
}

// The results of SECINFO and SECINFO_NO_NAME, which consume the current filehandle (RFC 8881 §2.6.3.1.1.8).
SECINFO4res AnswerFlavors(Compound& compound, const Result<Place, nfsstat4>& place) {
  if (!place) return SECINFO4res(place.error());
  if (compound.dialect.secinfo_consumes_filehandle()) {
    compound.current.reset();
    compound.current_stateid.reset();
  }
  return Describe(compound.names->FlavorsOf(*place->in, place->object, compound.call.peer));
}

}  // namespace

// RFC 8881 §18.13
Task<LOOKUP4res> Lookup(Compound& compound, const LOOKUP4args& arguments) {
  const auto found = co_await Find(compound, arguments.objname, compound.current->context());
  co_return LOOKUP4res{.status = found ? compound.MoveTo(*found->in, found->object) : found.error()};
}

// RFC 8881 §18.14
Task<LOOKUPP4res> LookupParent(Compound& compound) {
  const auto found = co_await FindParent(compound);
  co_return LOOKUPP4res{.status = found ? compound.MoveTo(*found->in, found->object) : found.error()};
}

// RFC 8881 §18.24
Task<READLINK4res> ReadLink(Compound& compound) {
  const Object& link = *compound.current;
  const auto observed = co_await link.file_system().ReadLink(link.context(), link.object());
  if (!observed.result) {
    const bool is_link = observed.attributes && observed.attributes->type == fs::FileType::kSymlink;
    // RFC 8881 §15.1.2.9
    if (observed.attributes && !is_link) co_return READLINK4res(compound.dialect.errors().not_a_symlink);
    co_return READLINK4res(ToStatus(observed.result.error()));
  }
  // The path is DDP-eligible (RFC 8267 §6.1), so it needs its own memory.
  const ConstBytes path = AsBytes(*observed.result);
  BufferRef buffer = compound.buffers().Allocate(path.size());
  const Bytes to = buffer->bytes().first(path.size());
  CopyBytes(to, path);
  co_return READLINK4res(NFS4_OK, READLINK4resok{.link = linktext4(Slice(std::move(buffer), to))});
}

// RFC 8881 §18.29
Task<SECINFO4res> SecurityInformation(Compound& compound, const SECINFO4args& arguments) {
  fs::RequestContext caller = compound.current->context();
  // The client's machine asks on behalf of users, also in directories that are closed to it (RFC 8881 §18.35.3). It
  // learns which exports there are, as from MOUNT, but no other name (§18.29.3).
  if (compound.MachineMay(OP_SECINFO)) {
    const auto junctions = co_await compound.names->JunctionsIn(*compound.current, compound.call.peer, arguments.name);
    if (!junctions.empty()) caller = OwnContext(compound.call.peer.loop);
  }
  const auto found = co_await Find(compound, arguments.name, caller);
  co_return AnswerFlavors(compound, found);
}

// RFC 8881 §18.45
Task<SECINFO_NO_NAME4res> SecurityInformationNoName(Compound& compound, const SECINFO_NO_NAME4args& arguments) {
  if (arguments == SECINFO_STYLE4_PARENT) {
    const auto parent = co_await FindParent(compound);
    co_return AnswerFlavors(compound, parent);
  }
  co_return AnswerFlavors(compound, Place{&compound.current->in(), compound.current->object()});
}

}  // namespace penstock::nfs::v4
