// The state machine of a client id of NFSv4.1, its lease and its session (RFC 8881 §2.4, §2.10, §8.3, §8.4). It does no
// I/O: next() gives the next step, and the Handle functions take the result of a step.
//
//     kExchangeId -> kCreateSession -> kReclaim -> kReclaimComplete -> kReady
//
// From every step a loss leads back: to kCreateSession if the session is lost, to kExchangeId if the client id is lost
// with all its state, or to kDestroySession if the session exists but the two sides disagree about sequence ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/timer.h"
#include "protocol/nfs4_0.h"
#include "protocol/nfs4_1.h"

namespace penstock::client::v4 {

class Lease {
 public:
  enum class Step : uint8_t { kExchangeId, kDestroySession, kCreateSession, kReclaim, kReclaimComplete, kReady };

  Step next() const { return next_; }
  bool ready() const { return next_ == Step::kReady; }
  // Whether there is a session, as far as the client knows: perhaps its state is not reclaimed yet.
  bool has_session() const { return ready() || next_ == Step::kReclaim || next_ == Step::kReclaimComplete; }

  // The server has given a client id.
  void HandleExchangeId(const nfs4::EXCHANGE_ID4resok& result);
  // DESTROY_SESSION has been sent, with any result.
  void HandleDestroyed();
  // Returns true if there is a session. Otherwise next() gives the step that follows; NFS4ERR_DELAY changes nothing.
  bool HandleCreateSession(const nfs4::CREATE_SESSION4res& result);
  // All state of the earlier client id has been reclaimed or given up.
  void HandleReclaimed();
  void HandleReclaimComplete();

  // Whether this status of SEQUENCE says that the session is lost or must be replaced.
  static bool EndsSession(nfs4::nfsstat4 status) { return AfterSessionOf(status).has_value(); }
  // An operation failed with `status` in the session number `generation`. The status of an earlier session is ignored.
  void HandleStatus(nfs4::nfsstat4 status, uint64_t generation);
  // SEQUENCE itself failed with NFS4ERR_EXPIRED in the session number `generation`.
  void HandleExpired(uint64_t generation);
  // The sr_status_flags of a successful SEQUENCE that was sent at `sent`.
  void HandleSequence(uint32_t flags, uint64_t generation, TimePoint sent);

  nfs4::clientid4 client() const { return client_; }
  // The sequence id of the next CREATE_SESSION.
  nfs4::sequenceid4 create_sequence() const { return create_sequence_; }
  const nfs4::sessionid4& session() const { return session_; }
  // The number of the session. Replies to requests of an earlier session do not count for this one.
  uint64_t generation() const { return generation_; }
  // The number of the client id. State of an earlier epoch is lost.
  uint64_t epoch() const { return epoch_; }
  // Whether the server has no connection for its callbacks (RFC 8881 §18.46.3), so that the client must bind one.
  bool back_channel_down() const { return back_channel_down_; }
  void HandleBound() { back_channel_down_ = false; }

  void set_lease_time(Duration time) { lease_time_ = time; }
  Duration lease_time() const { return lease_time_; }
  // When the last request was sent that renewed the lease.
  TimePoint renewed_at() const { return renewed_; }

 private:
  // Returns the step that follows after `status`, or nothing if the session goes on.
  static std::optional<Step> AfterSessionOf(nfs4::nfsstat4 status);
  void LoseClient();

  Step next_ = Step::kExchangeId;
  nfs4::clientid4 client_ = 0;
  nfs4::sequenceid4 create_sequence_ = 0;
  nfs4::sessionid4 session_{};
  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;
  bool reclaimed_ = false;  // RECLAIM_COMPLETE was sent to this instance of the server
  bool back_channel_down_ = false;
  Duration lease_time_ = std::chrono::seconds(30);  // until the server reports its own
  TimePoint renewed_{};
};

}  // namespace penstock::client::v4
