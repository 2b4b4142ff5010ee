// PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH.
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// RFC 7862 §15.2.3: a PUTFH that a SAVEFH follows must not fail, because the filehandle may be that of a file of
// another server, for COPY.
bool MayBeForeign(const Compound& compound) {
  if (!compound.services.copy_sources || !compound.dialect.has_copy() || !compound.following) return false;
  return compound.following->PeekU32() == static_cast<uint32_t>(OP_SAVEFH);
}

nfsstat4 PutRoot(Compound& compound) {
  const Place root = compound.names->Root(compound.call.peer);
  return compound.PutCurrent(*root.in, root.object);
}

}  // namespace

// RFC 8881 §18.19. The next operation finds out whether the object still exists (§4.2.2).
PUTFH4res PutFileHandle(Compound& compound, const PUTFH4args& arguments) {
  const auto parsed = FileHandle::Parse(arguments.object.bytes());
  const nfsstat4 status = parsed ? compound.PutCurrent(*parsed) : NFS4ERR_BADHANDLE;
  const bool is_referral = status == NFS4_OK && compound.current->in().is_referral();
  if ((status == NFS4ERR_BADHANDLE || status == NFS4ERR_STALE || is_referral) && MayBeForeign(compound)) {
    compound.PutForeign({.handle = arguments.object, .status = is_referral ? NFS4ERR_MOVED : status});
    return {.status = NFS4_OK};
  }
  return {.status = status};
}

Task<PUTFH4res> PutLastFileHandle(Compound& compound, const PUTFH4args& arguments) {
  const PUTFH4res put = PutFileHandle(compound, arguments);
  if (put.status != NFS4_OK) co_return put;
  const Object& file = *compound.current;
  // In an absent file system, GETATTR may follow in another COMPOUND.
  if (file.in().is_referral()) co_return put;
  const auto attributes = co_await file.file_system().GetAttributes(file.context(), file.object());
  co_return PUTFH4res{.status = attributes ? NFS4_OK : ToStatus(attributes.error())};
}

// RFC 8881 §18.21
PUTROOTFH4res PutRootFileHandle(Compound& compound) { return {.status = PutRoot(compound)}; }

// RFC 8881 §18.20: without a separate public filehandle it is the root.
PUTPUBFH4res PutPublicFileHandle(Compound& compound) { return {.status = PutRoot(compound)}; }

// RFC 8881 §18.8
GETFH4res GetFileHandle(Compound& compound) {
  return GETFH4res(NFS4_OK, GETFH4resok{.object = ToFileHandle(compound.current->handle())});
}

// RFC 8881 §18.28; the current stateid is saved with it (§16.2.3.1.2).
SAVEFH4res SaveFileHandle(Compound& compound) {
  compound.saved = compound.current;
  compound.saved_foreign = compound.foreign;
  compound.saved_stateid = compound.current_stateid;
  return {.status = NFS4_OK};
}

// RFC 8881 §18.27
RESTOREFH4res RestoreFileHandle(Compound& compound) {
  if (compound.saved_foreign) return {.status = compound.saved_foreign->status};
  if (!compound.saved) return {.status = compound.dialect.errors().no_saved_filehandle};
  const nfsstat4 status = compound.PutCurrent(compound.saved->in(), compound.saved->object());
  if (status == NFS4_OK) compound.current_stateid = compound.saved_stateid;
  return {.status = status};
}

}  // namespace penstock::nfs::v4
