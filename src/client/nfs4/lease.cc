#include "client/nfs4/lease.h"

#include <algorithm>
#include <cassert>

namespace penstock::client::v4 {

using nfs4::nfsstat4;

void Lease::HandleExchangeId(const nfs4::EXCHANGE_ID4resok& result) {
  assert(next_ == Step::kExchangeId);
  if (client_ != result.eir_clientid) {
    client_ = result.eir_clientid;
    ++epoch_;
    reclaimed_ = false;
  }
  create_sequence_ = result.eir_sequenceid;
  next_ = Step::kCreateSession;
}

void Lease::HandleDestroyed() {
  if (next_ == Step::kDestroySession) next_ = Step::kCreateSession;
}

bool Lease::HandleCreateSession(const nfs4::CREATE_SESSION4res& result) {
  assert(next_ == Step::kCreateSession);
  if (!result.is_csr_resok4()) {
    // RFC 8881 §18.36.4: the client id is unknown or the sequence id is wrong. EXCHANGE_ID repairs both.
    if (result.csr_status() != nfsstat4::NFS4ERR_DELAY) LoseClient();
    return false;
  }
  ++create_sequence_;
  session_ = result.csr_resok4().csr_sessionid;
  ++generation_;
  back_channel_down_ = false;
  next_ = reclaimed_ ? Step::kReady : Step::kReclaim;
  return true;
}

void Lease::HandleReclaimed() {
  if (next_ == Step::kReclaim) next_ = Step::kReclaimComplete;
}

void Lease::HandleReclaimComplete() {
  if (next_ != Step::kReclaimComplete) return;
  reclaimed_ = true;
  next_ = Step::kReady;
}

void Lease::LoseClient() {
  client_ = 0;
  next_ = Step::kExchangeId;
}

std::optional<Lease::Step> Lease::AfterSessionOf(nfsstat4 status) {
  switch (status) {
    case nfsstat4::NFS4ERR_BADSESSION:
    case nfsstat4::NFS4ERR_DEADSESSION:
      return Step::kCreateSession;
    // The slots of both sides disagree, so the client needs a session with new slots (RFC 8881 §15.1.11). The server
    // still has this session.
    case nfsstat4::NFS4ERR_SEQ_MISORDERED:
    case nfsstat4::NFS4ERR_BADSLOT:
    case nfsstat4::NFS4ERR_BAD_HIGH_SLOT:
    case nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
      return Step::kDestroySession;
    default:
      return std::nullopt;
  }
}

void Lease::HandleStatus(nfsstat4 status, uint64_t generation) {
  // The next session is on its way. It finds out whether the client id is good, and needs no DESTROY_SESSION before.
  if (generation != generation_ || next_ == Step::kExchangeId || next_ == Step::kCreateSession) return;
  if (const auto step = AfterSessionOf(status)) next_ = *step;
  if (status == nfsstat4::NFS4ERR_STALE_CLIENTID) LoseClient();
}

void Lease::HandleExpired(uint64_t generation) {
  if (generation == generation_ && next_ != Step::kExchangeId && next_ != Step::kCreateSession) LoseClient();
}

void Lease::HandleSequence(uint32_t flags, uint64_t generation, TimePoint sent) {
  if (generation != generation_) return;
  renewed_ = std::max(renewed_, sent);
  // The session has outlived a restart of the server, or the lease has expired (RFC 8881 §8.4.2.1, §8.3).
  constexpr uint32_t kStateLost =
      nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED | nfs4::SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED;
  if (ready() && (flags & kStateLost)) {
    ++epoch_;
    reclaimed_ = false;
    next_ = Step::kReclaim;
  }
  if (ready() && (flags & nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT)) next_ = Step::kDestroySession;
  if (flags & (nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION)) back_channel_down_ = true;
}

}  // namespace penstock::client::v4
