// What a client of NFSv4.1 has with its server: a client id with its lease, and a session on it (RFC 8881 §2.4, §2.10,
// §8.3, §8.4). A machine without I/O: next() says what is to be done, the Handle functions what came of it.
//
//     kExchangeId -> kCreateSession -> kReclaim -> kReclaimComplete -> kReady
//
// From everywhere a step back leads to kCreateSession, where the session has gone, or to kExchangeId, where the client
// id has gone and with it all that was open; or to kDestroySession, before kCreateSession, where the session is there, but one
// of its sides has lost count of the other's requests.
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

  // A client id.
  void HandleExchangeId(const nfs4::EXCHANGE_ID4resok& result);
  // The session has been destroyed, or nobody knows.
  void HandleDestroyed();
  // A session. False: it failed, and next() says where to go on; NFS4ERR_DELAY leaves everything as it was.
  bool HandleCreateSession(const nfs4::CREATE_SESSION4res& result);
  // What was open under an earlier client id has been claimed, or given up.
  void HandleReclaimed();
  void HandleReclaimComplete();

  // Whether the session has gone with this answer to SEQUENCE, or must go.
  static bool EndsSession(nfs4::nfsstat4 status) { return AfterSessionOf(status).has_value(); }
  // An operation failed with `status`, in session number `generation`: of an earlier one nobody cares any more.
  void HandleStatus(nfs4::nfsstat4 status, uint64_t generation);
  // sr_status_flags of a SEQUENCE that succeeded, sent at `sent`.
  void HandleSequence(uint32_t flags, uint64_t generation, TimePoint sent);

  nfs4::clientid4 client() const { return client_; }
  // For CREATE_SESSION.
  nfs4::sequenceid4 create_sequence() const { return create_sequence_; }
  const nfs4::sessionid4& session() const { return session_; }
  // Counts sessions; what was sent in an earlier one is not answered for in this.
  uint64_t generation() const { return generation_; }
  // Counts client ids: state of an earlier one is gone.
  uint64_t epoch() const { return epoch_; }
  // Whether the server cannot reach us over any connection (RFC 8881 §18.46.3): it is to be bound anew.
  bool back_channel_down() const { return back_channel_down_; }
  void HandleBound() { back_channel_down_ = false; }

  void set_lease_time(Duration time) { lease_time_ = time; }
  Duration lease_time() const { return lease_time_; }
  // When that was sent which renewed it last.
  TimePoint renewed_at() const { return renewed_; }

 private:
  // Where to go on after such an answer; nothing: in the same session.
  static std::optional<Step> AfterSessionOf(nfs4::nfsstat4 status);
  void LoseClient();

  Step next_ = Step::kExchangeId;
  nfs4::clientid4 client_ = 0;
  nfs4::sequenceid4 create_sequence_ = 0;
  nfs4::sessionid4 session_{};
  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;
  bool reclaimed_ = false;  // all is said to this instance of the server that is to be said
  bool back_channel_down_ = false;
  Duration lease_time_ = std::chrono::seconds(30);  // until the server says
  TimePoint renewed_{};
};

}  // namespace penstock::client::v4
