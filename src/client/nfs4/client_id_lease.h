// What a client of NFSv4.0 has with its server: a client id with its lease (RFC 7530 §9.1.1, §9.5, §9.6). A machine
// without I/O: next() says what is to be done, the Handle functions what came of it.
//
//     kSetClientId -> kConfirm -> kReclaim -> kReady
//
// Where an answer makes it doubtful that the server still knows what was open, RENEW tells: from kRenew it goes back to
// kReady, or on to kSetClientId, where all begins anew.
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
  // The answer to what was sent at `sent`.
  void HandleConfirm(nfs4::nfsstat4 status, TimePoint sent);
  // What was open under an earlier client id has been claimed, or given up.
  void HandleReclaimed();
  // The answer to a RENEW of `epoch`, sent at `sent`.
  void HandleRenew(nfs4::nfsstat4 status, uint64_t epoch, TimePoint sent);
  // Another operation failed with `status`, under the client id of `epoch`.
  void HandleStatus(nfs4::nfsstat4 status, uint64_t epoch);

  nfs4::clientid4 client() const { return client_; }
  const nfs4::verifier4& confirmation() const { return confirmation_; }
  // Counts client ids: state of an earlier one is gone.
  uint64_t epoch() const { return epoch_; }

  void set_lease_time(Duration time) { lease_time_ = time; }
  Duration lease_time() const { return lease_time_; }
  // When that was sent which renewed it last.
  TimePoint renewed_at() const { return renewed_; }

 private:
  Step next_ = Step::kSetClientId;
  nfs4::clientid4 client_ = 0;
  nfs4::verifier4 confirmation_{};
  uint64_t epoch_ = 0;
  Duration lease_time_ = std::chrono::seconds(30);  // until the server says
  TimePoint renewed_{};
};

}  // namespace penstock::client::v4
