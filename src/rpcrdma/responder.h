// The responder of a connection: it receives calls, pulls their chunks, has them executed and returns their replies
// (RFC 8166 §3.5, §4). The coroutine Serve() runs once per call, from its arrival until its reply has left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "base/task.h"
#include "base/ticket.h"
#include "metrics/counts.h"
#include "rpc/connection_control.h"
#include "rpc/memory_budget.h"
#include "rpc/transport.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/pulled_pieces.h"
#include "rpcrdma/read_plan.h"
#include "rpcrdma/read_queue.h"
#include "rpcrdma/refused_calls.h"
#include "rpcrdma/wait_queue.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {

struct ResponderOptions {
  uint32_t credits = 64;  // the most calls of one connection that may be without a reply
  // A connection begins with so many credits, and has more while its peer uses them (CreditDemand). More than `credits`
  // counts as that.
  uint32_t first_credits = std::numeric_limits<uint32_t>::max();
  // The most octets in the Read chunks of one call. The reply to a longer call is ERR_CHUNK.
  size_t max_call_octets = 4 << 20;
  // The most octets of Read chunks for all calls of a connection at once; other calls wait. At least max_call_octets.
  size_t max_pulled_octets = 32 << 20;
  // The most memory behind replies that the peer has not received; above it, calls wait. File data do not count,
  // because the provider sends them from the file.
  size_t max_queued_octets = 8 << 20;
  bool chunks = true;  // false: the reply to a call with chunks is ERR_CHUNK (RFC 8167 §5.3)
  // The connection begins with one receive for calls, so that the peer can ask for other sizes
  // (draft-talpey-nfsv4-rdma-sess-01 §2.3.3). The first reply posts the others and grants the credits, unless the call
  // keeps the limits open. Until then RFC 8166 §3.3.3 allows only one call.
  bool one_receive_first = false;

  // The most receives that a connection may have for the calls of its peer.
  uint32_t most_receives() const { return one_receive_first ? 1 : ResponderCredits(credits).receives_needed(); }
  // The number of receives to post with the connection.
  uint32_t first_receives() const {
    return one_receive_first ? 1 : ResponderCredits(std::min(first_credits, credits)).receives_needed();
  }
};

class Responder {
 public:
  // All arguments must outlive the responder. `refused` is shared by the connections of a server; it may be null.
  // `memory` is the account of this connection, or null if memory is not counted; its on_room callback must lead to
  // HandleRoom().
  Responder(Connection& connection, rpc::CallHandler& handler, const rpc::Peer& peer, const ResponderOptions& options,
            RefusedCalls* refused = nullptr, rpc::MemoryBudget::Account* memory = nullptr);

  // May be called at any time. The next replies grant the new number.
  void set_credits(uint32_t credits);
  const ResponderCredits& credits() const { return credits_; }

  // Accepts no more calls, and disconnects once every accepted call has its reply.
  void Stop();

  // ---- the limits of the connection: see rpc::ConnectionControl

  // Whether the sizes can still change: the peer may use one receive and no other.
  bool sizes_are_open() const { return opening_ && connection_.receives() == 1; }
  // Sets limits that were agreed when the connection began.
  void BeginBound(const rpc::ConnectionLimits& limits);
  // Sets limits from the reply to `call` on.
  void Bind(rpc::Xid call, const rpc::ConnectionLimits& limits);
  void KeepLimitsOpen(rpc::Xid call);
  // Withdraws the credits above this number, but not the last one: see rpc::BackChannel::Withdraw().
  void Withdraw(uint32_t credits) { credits_.BeginWithdrawal(credits); }
  // The room for the reply to a call under execution, and for its n-th payload.
  size_t ReplyRoom(rpc::Xid call) const;
  std::optional<size_t> PayloadRoom(rpc::Xid call, size_t n) const;
  // Whether a program has agreed on limits with the peer.
  bool bound() const { return bound_; }
  // The receives that are posted for the peer's calls.
  uint32_t receives() const { return receives_; }

  // The connection calls these functions.
  void HandleCall(Received&& message);
  // A Send of no octets has arrived: the peer returns a credit (draft-talpey-nfsv4-rdma-sess-01 §2.4). Returns true if
  // its receive is not to be posted again. Without bound limits such a Send means nothing.
  bool HandleEmptySend();
  // True if the receive of a call that has arrived is not to be posted again, because a credit is withdrawn. At most
  // one receive goes with each call: see ResponderCredits::set_limit().
  bool TakesReceiveBack();
  void HandleBadHeader(const FixedHeader& fixed, HeaderError error);
  // Called for the completion of each Read, before its waiter resumes.
  void HandleReadDone() { reads_.HandleCompletion(); }
  void HandleLost();
  // Memory or room may have become free: resumes calls that wait for it.
  void HandleRoom();

 private:
  // The resources that the Read chunks of a call need.
  struct Room {
    size_t octets = 0;
    size_t memory = 0;  // the memory of the buffers for these octets
  };

  // A call that the handler executes. It lives in the frame of Serve().
  struct Executing {
    rpc::Xid xid;
    const ChunkLists& chunks;
    bool keeps_limits_open = false;
  };
  void EndExecution(Executing* call) { std::erase(executing_, call); }
  using ExecutionTicket = Ticket<&Responder::EndExecution>;
  Executing* Find(rpc::Xid call) const;

  Task<void> Serve(Received message);
  // Null if nothing is counted.
  metrics::RdmaCounts* counts() const { return peer_.counts ? &peer_.counts->loop().rdma : nullptr; }
  // Disconnects, and tells the counters why.
  void End(std::string why, metrics::ConnectionEnd reason = metrics::ConnectionEnd::kServer);
  // Counts the chunks of a call. `plan` is null if there are no Read chunks.
  void CountChunks(const Header& header, const ReadPlan* plan) const;
  // Whether a program has bound the connection to a session whose requests it judges in the order of arrival.
  bool IsBoundToSession() const { return peer_.back_channel && peer_.back_channel->bound(); }
  // A call has arrived that no program will see: see rpc::CallOrder::TakeGap().
  void LeaveGap(rpc::Xid xid);
  // Whether to read the payload of the call in pieces, so that its execution begins with the first one.
  bool ShouldDivide(const ReadPlan& plan, const rpc::Message& call, rpc::Xid xid) const;
  // Reads the chunks of a call. Returns when they have arrived, or the first of several pieces has. Then the caller
  // waits for PulledPieces::done before it replies or ends.
  Task<bool> Pull(RefusedCalls::Key key, const ReadPlan& plan, rpc::Message& call, PulledPieces& pieces);
  // Waits for the pieces after the first, and tells whoever uses the payload.
  Task<void> Follow(RefusedCalls::Key key, PulledPieces& pieces);
  void PostReads(std::span<const Segment> segments, const BufferRef& buffer, PulledPieces& pieces);
  // True if the reply has file data, and the provider cannot send from files.
  bool MustLoad(const rpc::Message& reply) const;
  // Loads file data if the provider cannot send from files. Returns false if there is no reply to send; the connection
  // then ends.
  bool CanSend(rpc::Message& reply);
  // Posts the Writes and the Send of the reply. `call` is the header of the call. Returns false if the reply does not
  // fit into the chunks of the call.
  bool PostReply(const rpc::Message& reply, Header&& call, WorkBatch& work);
  // The longest Send for the reply to `call` or to any other call that is under way.
  uint32_t send_threshold() const;
  // Changes the credits for later replies, and posts the receives that they need.
  void SetCreditLimit(uint32_t limit);
  // Ends the time of one receive with the limits that the peers have announced.
  void UseAnnouncedLimits();
  void PostWrites(const rdma::Gather& gather, std::span<const Segment> segments, WorkBatch& work);
  // Replies with RDMA_ERROR. Completes when the Send has left.
  Task<void> SendError(FixedHeader request, ErrorCode error);
  // Returns true while the number of queued replies is plausible. Otherwise the peer does not receive its replies, and
  // the connection ends.
  bool ReceivesReplies();
  // RFC 8166 §4.5.3: if the peer has refused an access to its memory, remembers the call. See RefusedCalls.
  void Remember(RefusedCalls::Key key, const WorkBatch& work);
  RefusedCalls::Key KeyOf(const Header& call) const;
  bool IsRefused(const Header& call) const;

  // The accounts of the responder. Each Ticket gives its share back with the function beside it.
  //
  // A call that counts against the credits. It ends when its reply is posted, or when it gets no reply.
  void EndCall();
  using UnansweredCall = Ticket<&Responder::EndCall>;
  static Room RoomFor(const ReadPlan& plan);
  // Takes room for the chunks of a call, which a PullRoom gives back. Returns false if there is not enough.
  bool TakeRoom(const Room& room);
  void ReleaseRoom(Room room);
  using PullRoom = Ticket<&Responder::ReleaseRoom>;
  // Counts memory of a reply. It is in use already, so that no limit applies.
  void UncountMemory(size_t octets);
  using CountedMemory = Ticket<&Responder::UncountMemory>;
  CountedMemory CountMemory(size_t octets);
  // Counts a reply that is posted and has not left. `octets` is the memory behind it.
  void HandleReplySent(size_t octets);
  using QueuedReply = Ticket<&Responder::HandleReplySent>;
  QueuedReply QueueReply(size_t octets);
  // Waits until the peer has received enough of its replies. Returns false if the connection is lost.
  Task<bool> AwaitQueueRoom(rpc::Xid xid);

  Connection& connection_;
  rpc::CallHandler& handler_;
  const rpc::Peer& peer_;
  const ResponderOptions options_;
  RefusedCalls* const refused_;
  ResponderCredits credits_;
  uint32_t receives_;    // posted for calls
  CreditDemand demand_;  // of a connection that is not bound
  bool opening_;         // the peer has one receive and one credit
  bool bound_ = false;   // the limits were agreed by rpc::ConnectionControl
  bool may_read_ = true;
  // The size of replies changes when the reply to this call has left.
  struct NextSize {
    rpc::Xid call;
    uint32_t max_response = 0;
  };
  std::optional<NextSize> next_size_;
  uint32_t empty_sends_ = 0;  // since the last call
  std::vector<Executing*> executing_;
  ReadQueue reads_;
  rpc::MemoryBudget::Account* const memory_;
  size_t pulled_octets_ = 0;
  WaitQueue<Room> room_;
  uint32_t replies_queued_ = 0;  // replies that are posted and have not left
  size_t queued_octets_ = 0;     // the memory behind them
  WaitQueue<std::monostate> queue_room_;
  bool stopping_ = false;
};

}  // namespace penstock::rpcrdma
