// The state machine of a session of 2004 and its lease (draft-talpey-nfsv4-rdma-sess-01 §2.1, §2.3, §6.1, §6.2). It
// does no I/O: next() gives the next step, and the Handle functions take the result of a step.
//
//     kCreate -> kBindBack -> kBind -> kReclaim -> kReady
//
// If the server does not know the session any more, everything starts again from kCreate. If the server has restarted
// and still knows the session, the client's opens, locks and delegations are gone: kReclaim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/timer.h"
#include "protocol/nfs4_sess01.h"

namespace penstock::client::v4::sess01 {

// A value that changes when the server restarts (TRANSPORTATTR4_INSTANCE).
using Instance = std::array<std::byte, 8>;

class BoundLease {
 public:
  enum class Step : uint8_t { kCreate, kBindBack, kBind, kReclaim, kReady };

  Step next() const { return next_; }
  bool ready() const { return next_ == Step::kReady; }
  // Whether the client has a session, as far as it knows.
  bool has_session() const { return next_ != Step::kCreate; }

  void HandleCreated(const nfs4::SESSIONCREATE4resok& result);
  // There is a back channel, or the client wants none.
  void HandleBackBound();
  // All operations channels are bound.
  void HandleBound();
  // The server has told its instance when it bound a connection to the session of `generation`.
  void HandleInstance(const std::optional<Instance>& instance, uint64_t generation);
  // The state of `epoch` has been reclaimed or given up.
  void HandleReclaimed(uint64_t epoch);
  // The server does not know the session of `generation`.
  void HandleLost(uint64_t generation);
  // The server has executed a request of the session of `generation` that was sent at `sent`.
  void HandleExecuted(uint64_t generation, TimePoint sent);

  uint64_t session() const { return session_; }
  // Whether the server promises to execute each request once, also over a restart (§2.1.4).
  bool persists() const { return persists_; }
  uint32_t total_requests() const { return total_requests_; }
  // The number of the session. Replies to requests of an earlier session do not count for this one.
  uint64_t generation() const { return generation_; }
  // The number of the server's knowledge of this client. State of an earlier epoch is lost.
  uint64_t epoch() const { return epoch_; }

  void set_lease_time(Duration time) { lease_time_ = time; }
  Duration lease_time() const { return lease_time_; }
  // When the last request was sent that renewed the lease.
  TimePoint renewed_at() const { return renewed_; }

 private:
  Step next_ = Step::kCreate;
  uint64_t session_ = 0;
  bool persists_ = false;
  uint32_t total_requests_ = 1;
  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;
  std::optional<Instance> instance_;
  Duration lease_time_ = std::chrono::seconds(30);  // until the server reports its own
  TimePoint renewed_{};
};

}  // namespace penstock::client::v4::sess01
