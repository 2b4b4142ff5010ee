#include "client/nfs4/state_owner.h"

#include <array>

#include "base/bytes.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

StateOwner::StateOwner(uint64_t number, std::string_view name) {
  std::array<std::byte, 8> prefix;
  StoreBig(prefix.data(), number);
  octets_ = AsText(prefix);
  octets_ += name.substr(0, nfs4::NFS4_OPAQUE_LIMIT - prefix.size());
}

// RFC 7530 §9.1.7
void StateOwner::HandleStatus(std::optional<nfsstat4> status) {
  if (!status) return;
  switch (*status) {
    case nfsstat4::NFS4ERR_BAD_SEQID:
      spent_ = true;
      break;
    case nfsstat4::NFS4ERR_STALE_CLIENTID:
    case nfsstat4::NFS4ERR_STALE_STATEID:
    case nfsstat4::NFS4ERR_BAD_STATEID:
    case nfsstat4::NFS4ERR_BADXDR:
    case nfsstat4::NFS4ERR_RESOURCE:
    case nfsstat4::NFS4ERR_NOFILEHANDLE:
    case nfsstat4::NFS4ERR_MOVED:
      break;
    default:
      ++sequence_;
  }
}

}  // namespace penstock::client::v4
