// The state machine of a client id of NFSv4.0 and its lease (RFC 7530 §9.1.1, §9.5, §9.6). It does no I/O: next() gives
// the next step, and the Handle functions take the result of a step.
//
//     kSetClientId -> kConfirm -> kReclaim -> kReady
//
// If a status makes it doubtful whether the server still has the client's state, RENEW tells: kRenew leads back to
// kReady, or to kSetClientId, from which everything is established again.
#pragma once

#include <cstdint>

#include "base/timer.h"
#include "protocol/nfs4_0.h"

namespace penstock::client::v4 {

class ClientIdLease {
 public:
  enum class Step : uint8_t { kRenew, kSetClientId, kConfirm, kReclaim, kReady };

  Step next() const { return next_; }
  bool ready() const { return next_ == Step::kReady; }

  void HandleSetClientId(const nfs4::SETCLIENTID4resok& result);
  // The status of a SETCLIENTID_CONFIRM that was sent at `sent`.
  void HandleConfirm(nfs4::nfsstat4 status, TimePoint sent);
  // All state of the earlier client id has been reclaimed or given up.
  void HandleReclaimed();
  // The status of a RENEW that was sent at `sent` for the client id of `epoch`.
  void HandleRenew(nfs4::nfsstat4 status, uint64_t epoch, TimePoint sent);
  // Another operation failed with `status` under the client id of `epoch`.
  void HandleStatus(nfs4::nfsstat4 status, uint64_t epoch);

  nfs4::clientid4 client() const { return client_; }
  const nfs4::verifier4& confirmation() const { return confirmation_; }
  // The number of the client id. State of an earlier epoch is lost.
  uint64_t epoch() const { return epoch_; }

  void set_lease_time(Duration time) { lease_time_ = time; }
  Duration lease_time() const { return lease_time_; }
  // When the last request was sent that renewed the lease.
  TimePoint renewed_at() const { return renewed_; }

 private:
  Step next_ = Step::kSetClientId;
  nfs4::clientid4 client_ = 0;
  nfs4::verifier4 confirmation_{};
  uint64_t epoch_ = 0;
  Duration lease_time_ = std::chrono::seconds(30);  // until the server reports its own
  TimePoint renewed_{};
};

}  // namespace penstock::client::v4
