#include "client/nfs4/client_id_lease.h"

#include <algorithm>
#include <cassert>

namespace penstock::client::v4 {

using nfs4::nfsstat4;

void ClientIdLease::HandleSetClientId(const nfs4::SETCLIENTID4resok& result) {
  assert(next_ == Step::kSetClientId);
  client_ = result.clientid;
  confirmation_ = result.setclientid_confirm;
  next_ = Step::kConfirm;
}

void ClientIdLease::HandleConfirm(nfsstat4 status, TimePoint sent) {
  assert(next_ == Step::kConfirm);
  switch (status) {
    case nfsstat4::NFS4_OK:
      // The epoch changes also if the client id is the same: the client asks for one only if its state is lost.
      ++epoch_;
      renewed_ = std::max(renewed_, sent);
      next_ = Step::kReclaim;
      break;
    case nfsstat4::NFS4ERR_DELAY:
      break;
    default:  // RFC 7530 §16.34.5: the server has forgotten the client id
      next_ = Step::kSetClientId;
  }
}

void ClientIdLease::HandleReclaimed() {
  if (next_ == Step::kReclaim) next_ = Step::kReady;
}

void ClientIdLease::HandleRenew(nfsstat4 status, uint64_t epoch, TimePoint sent) {
  if (epoch != epoch_ || (next_ != Step::kRenew && next_ != Step::kReady)) return;
  switch (status) {
    case nfsstat4::NFS4_OK:
    // The lease is renewed. Only delegations are in danger, and this client holds none (RFC 7530 §16.28.5).
    case nfsstat4::NFS4ERR_CB_PATH_DOWN:
    // A file system has moved, whose state may be at another server. The lease of the rest is renewed.
    case nfsstat4::NFS4ERR_LEASE_MOVED:
      renewed_ = std::max(renewed_, sent);
      next_ = Step::kReady;
      break;
    case nfsstat4::NFS4ERR_STALE_CLIENTID:
    case nfsstat4::NFS4ERR_EXPIRED:
      next_ = Step::kSetClientId;
      break;
    default:
      break;
  }
}

void ClientIdLease::HandleStatus(nfsstat4 status, uint64_t epoch) {
  if (epoch != epoch_) return;
  switch (status) {
    case nfsstat4::NFS4ERR_STALE_CLIENTID:
      // Before the confirmation, the status is about the earlier client id.
      if (next_ != Step::kConfirm) next_ = Step::kSetClientId;
      break;
    // RFC 7530 §9.6.2, §9.6.3: the server has restarted, or the lease has expired, or only this stateid is old.
    case nfsstat4::NFS4ERR_STALE_STATEID:
    case nfsstat4::NFS4ERR_EXPIRED:
      if (next_ == Step::kReady) next_ = Step::kRenew;
      break;
    default:
      break;
  }
}

}  // namespace penstock::client::v4
