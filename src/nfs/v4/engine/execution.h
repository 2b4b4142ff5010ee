// The execution of one COMPOUND: operation by operation, until one fails (RFC 8881 §16.2.3).
//
// In a dialect with sessions, the first operation opens the request: it finds the session, tells a new request from a
// retry, and sets the limits of the reply. SEQUENCE does so for RFC 8881 (sequence.cc), OPERATION_CONTROL for the
// sessions of 2004 (operation_control.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "base/task.h"
#include "metrics/loop_counts.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/engine/results.h"
#include "nfs/v4/state/sess01/bound_sessions.h"
#include "nfs/v4/state/sessions/sessions.h"
#include "rpc/reply_cache.h"

namespace penstock::nfs::v4 {

class Execution {
 public:
  // `arguments` is positioned after the head. The dialect of the head is not null. All arguments outlive the execution.
  Execution(const Services& services, rpc::CallContext& call, const CompoundHead& head, xdr::Decoder& arguments,
            xdr::Encoder& results);

  // Executes the operations up to the first failure. Returns the status of the COMPOUND.
  Task<nfs4::nfsstat4> Run();
  Results& results() { return results_; }
  // Tells how the reply cache keeps the reply. kChange: the COMPOUND tried an operation that must not be executed
  // twice. kWrite: it tried a WRITE, which must not be executed late.
  rpc::Keep keep() const { return changed_ ? rpc::Keep::kChange : wrote_ ? rpc::Keep::kWrite : rpc::Keep::kNothing; }
  // The results are a kept reply, which is complete.
  bool replayed() const { return replayed_; }
  // Whether the reply must be on stable storage before it is sent, because the client may ask for it again after the
  // server's restart, and must not take the request for one that was never executed. The caller then calls Persist()
  // before Finish().
  bool must_outlive_server() const;
  Task<> Persist();
  // Ends the request, once the results are complete: keeps the reply if the session keeps it, and frees the request's
  // slot for the client's next request.
  void Finish();

 private:
  // A request on a slot of a session of RFC 8881.
  struct SlotRequest {
    SlotId slot;
    SequenceId sequence;
    SessionId session;
    std::shared_ptr<SessionReplies> replies;  // see Sessions::StartedRequest
    bool reclaiming = false;
    bool uncached = false;  // a retry, and the slot did not keep the reply
    uint64_t digest = 0;
  };

  // A request of a session of 2004.
  struct StreamRequest {
    sess01::BoundSessions::RequestRef ref;
    StreamRecord record;                       // its name
    std::shared_ptr<StreamStorage> storage{};  // see BoundSessions::StartedRequest
    enum class Begun : uint8_t { kNo, kYes, kLasting };
    Begun begun = Begun::kNo;  // what the storage knows of the request
    bool executed = true;      // false: the chain did not allow it
    bool keeps_reply = false;
    bool repeats = false;  // see StreamTable::Started
  };

  static metrics::InterfaceCounts* CountsFor(const rpc::CallContext& call);
  nfs4::nfsstat4 Fail(nfs4::nfs_opnum4 number, const Operation* operation, nfs4::nfsstat4 status);
  nfs4::nfsstat4 Check(uint32_t index, nfs4::nfs_opnum4 number, const Operation* operation) const;
  nfs4::nfsstat4 CheckOrder(uint32_t index, const Operation& operation) const;
  nfs4::nfsstat4 CheckRoom(size_t size) const;
  size_t RoomWithin(size_t reply) const;
  void LimitToConnection();
  std::optional<size_t> PlacedOctets() const;
  bool CanBeSent(size_t size) const;
  // Decodes the number of the operation at this index. Returns the operation if it may be executed. Otherwise returns
  // null, with its failure in `status_` and the results.
  const Operation* Next(uint32_t index, nfs4::nfs_opnum4& number);
  // Whether WaitToBegin() must come before the operation: for most it needs no coroutine.
  bool MustWait(const Operation& operation) const;
  // Returns an error if the operation must not be executed.
  Task<nfs4::nfsstat4> WaitToBegin(const Operation& operation);
  // What comes before and after the operation's own function.
  void Begin(uint32_t index, const Operation& operation);
  void End(uint32_t index, const Operation& operation);
  bool IsLast(uint32_t index) const { return index + 1 == head_.count; }
  // Whether the COMPOUND has used its loop for as long as a connection may (LoopTurn).
  bool IsTurnOver() const;
  void BeginTurn();
  // Counts the operation that has just ended, whose execution began at `counted_until_`.
  void Count(nfs4::nfs_opnum4 number);

  // sequence.cc
  nfs4::nfsstat4 RunSequence();
  Task<> Persist(const SlotRequest& request);
  void Finish(const SlotRequest& request);

  // operation_control.cc
  Task<nfs4::nfsstat4> RunControl();
  Task<nfs4::nfsstat4> AwaitTurn(StreamRequest& request);
  nfs4::nfsstat4 RestoreFilehandles(const sess01::ChainRun::Filehandles& filehandles);
  // Keeps the name of the request before its next operation changes something, if the session outlives the server.
  // Returns false if that fails; then the operation must not be executed.
  Task<bool> BeginChange(const Operation& operation);
  bool MayLast(const Operation& operation) const;
  Task<> Persist(const StreamRequest& request);
  void Finish(const StreamRequest& request);

  Compound compound_;
  const CompoundHead& head_;
  xdr::Decoder& arguments_;
  Results results_;
  size_t limit_;                  // the largest size of the reply in octets
  size_t kept_limit_ = SIZE_MAX;  // the same for a reply that the session keeps
  // kept_limit_ from the first operation on that changes something. Before, the session can do without the reply.
  size_t changed_limit_ = SIZE_MAX;
  // The octets of the reply that the connection can send beside the payloads in Write chunks; see LimitToConnection().
  size_t sendable_ = SIZE_MAX;
  nfs4::nfsstat4 status_ = nfs4::NFS4_OK;
  metrics::InterfaceCounts* const counts_;  // of the dialect; null if nothing is counted
  metrics::Ticks turn_began_ = 0;           // the COMPOUND's turn on its loop
  metrics::Ticks counted_until_ = 0;        // when the last operation ended
  uint64_t read_octets_ = 0;                // that were counted
  uint64_t written_octets_ = 0;
  bool replayed_ = false;
  bool changed_ = false;
  bool wrote_ = false;
  bool gave_up_ = false;  // the COMPOUND tried an operation with `changes` that may do more than take state
  std::variant<std::monostate, SlotRequest, StreamRequest> request_;
};

}  // namespace penstock::nfs::v4
