#include "nfs/v4/compound.h"

#include <algorithm>

#include "nfs/v4/namespace.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// RFC 8881 §2.6.3.1.1: an operation that makes a filehandle the current one does not complain about the security flavor
// where the next one replaces that filehandle, asks which flavors there are, or checks the flavor of the object that it
// leads to.
bool NextForgivesFlavor(const std::optional<nfs_opnum4>& next) {
  if (!next) return true;
  switch (*next) {
    case OP_PUTFH:
    case OP_PUTPUBFH:
    case OP_PUTROOTFH:
    case OP_RESTOREFH:
    case OP_SAVEFH:
    case OP_SECINFO:
    case OP_SECINFO_NO_NAME:
    case OP_LOOKUP:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<nfs_opnum4> Compound::next_operation() const {
  const auto number = following ? following->PeekU32() : std::nullopt;
  if (!number) return std::nullopt;
  return static_cast<nfs_opnum4>(*number);
}

nfsstat4 Compound::CheckFlavor(const Export& in) const {
  const bool too_weak = !in.options().authentication_none && call.credential.flavor == rpc::AuthFlavor::AUTH_NONE;
  return too_weak ? NFS4ERR_WRONGSEC : NFS4_OK;
}

nfsstat4 Compound::SetCurrent(const FileHandle& handle) {
  // RFC 8881 §15.1.2.9: access that was revoked, for everybody or for this client, makes a handle stale.
  const Export* in = services.names.Find(handle.export_id, call.peer.address);
  if (!in) return NFS4ERR_STALE;
  return SetCurrent(*in, handle.object);
}

nfsstat4 Compound::SetCurrent(const Export& in, const fs::Handle& object) {
  if (CheckFlavor(in) != NFS4_OK && !NextForgivesFlavor(next_operation())) return NFS4ERR_WRONGSEC;
  current.emplace(in, object, call);
  current_stateid.reset();
  return NFS4_OK;
}

// RFC 8881 §8.2.3: sequence number one, and zeros else.
Result<stateid4, nfsstat4> Compound::Resolve(const stateid4& given) const {
  static constexpr stateid4 kCurrent{.seqid = 1, .other = {}};
  if (minor_version == 0 || given != kCurrent) return given;
  if (!current_stateid) return std::unexpected(NFS4ERR_BAD_STATEID);
  return *current_stateid;
}

}  // namespace penstock::nfs::v4
