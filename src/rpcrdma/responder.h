// The side that answers: RFC 8166 §3.5, §4. One coroutine per call, Serve(), is the call's whole life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/task.h"
#include "base/ticket.h"
#include "rpc/memory_budget.h"
#include "rpc/transport.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/read_plan.h"
#include "rpcrdma/read_queue.h"
#include "rpcrdma/refused_calls.h"
#include "rpcrdma/wait_queue.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {

struct ResponderOptions {
  uint32_t credits = 64;             // calls of one connection that may be unanswered
  size_t max_call_octets = 4 << 20;  // that a call may make us pull by its Read chunks; more is answered with ERR_CHUNK
  size_t max_pulled_octets =
      32 << 20;  // that all calls of a connection together may; more has to wait. At least as many
  // Memory behind replies that the peer has not taken; above it calls have to wait. Files are sent from where they are.
  size_t max_queued_octets = 8 << 20;
  bool chunks = true;  // false: a call with chunks is answered with ERR_CHUNK (RFC 8167 §5.3)
};

class Responder {
 public:
  // All outlive the responder. `refused`: those of its clients' other connections; may be null. `memory`: null where none is
  // counted. Its on_room leads to HandleRoom().
  Responder(Connection& connection, rpc::CallHandler& handler, const rpc::Peer& peer, const ResponderOptions& options,
            RefusedCalls* refused = nullptr, rpc::MemoryBudget::Account* memory = nullptr);

  // May change at any time: the next replies say so.
  void set_credits(uint32_t credits);
  const ResponderCredits& credits() const { return credits_; }

  // Takes no more calls, and disconnects when those that have been taken are answered.
  void Stop();

  // For the connection.
  void HandleCall(Received message);
  void HandleBadHeader(const FixedHeader& fixed, HeaderError error);
  // For the completion of each Read, before whoever waits for it goes on.
  void HandleReadDone() { reads_.HandleCompletion(); }
  void HandleLost();
  // There may be memory for the calls that wait for some.
  void HandleRoom();

 private:
  // What a call's Read chunks need.
  struct Room {
    size_t octets = 0;
    size_t memory = 0;  // of the buffers that they are pulled into
  };

  Task<void> Serve(Received message);
  Task<bool> Pull(RefusedCalls::Key key, const ReadPlan& plan, rpc::Message& call);
  void PostReads(std::span<const Segment> segments, const BufferRef& buffer, WorkBatch& work);
  // Whether the reply has data in files that the provider cannot send.
  bool MustLoad(const rpc::Message& reply) const;
  // Brings the reply into the form that the provider can send. False where there is none to be sent: the connection ends.
  bool CanSend(rpc::Message& reply);
  // False where the reply cannot be sent in the chunks that the call has offered. `call` is its header.
  bool PostReply(const rpc::Message& reply, Header call, WorkBatch& work);
  void PostWrites(const rdma::Gather& gather, std::span<const Segment> segments, WorkBatch& work);
  // Answers with RDMA_ERROR; done when it is sent.
  Task<void> SendError(FixedHeader request, ErrorCode error);
  // True while the peer has not left more answers untaken than it could have calls unanswered.
  bool TakesAnswers();
  // RFC 8166 §4.5.3: a call whose memory the peer does not let us reach is remembered. See RefusedCalls.
  void Remember(RefusedCalls::Key key, const WorkBatch& work);
  RefusedCalls::Key KeyOf(const Header& call) const;
  bool IsRefused(const Header& call) const;

  // The accounts of the responder. Each Ticket gives its share back by the function beside it.
  //
  // A call that the connection's credits count. It ends when its reply is posted, or when it is certain that there is none.
  void EndCall();
  using UnansweredCall = Ticket<&Responder::EndCall>;
  static Room RoomFor(const ReadPlan& plan);
  // Takes room for a call's chunks, for a PullRoom. False if there is not enough.
  bool TakeRoom(const Room& room);
  void ReleaseRoom(Room room);
  using PullRoom = Ticket<&Responder::ReleaseRoom>;
  // Memory that is in use whatever the limits say.
  void UncountMemory(size_t octets);
  using CountedMemory = Ticket<&Responder::UncountMemory>;
  CountedMemory CountMemory(size_t octets);
  // A reply that is posted and has not left; `octets` of memory are behind it.
  void HandleReplySent(size_t octets);
  using QueuedReply = Ticket<&Responder::HandleReplySent>;
  QueuedReply QueueReply(size_t octets);
  // Where the peer has left too many replies untaken: until it has taken some. False where the connection is lost.
  Task<bool> AwaitQueueRoom(rpc::Xid xid);

  Connection& connection_;
  rpc::CallHandler& handler_;
  const rpc::Peer& peer_;
  const ResponderOptions options_;
  RefusedCalls* const refused_;
  ResponderCredits credits_;
  ReadQueue reads_;
  rpc::MemoryBudget::Account* const memory_;
  size_t pulled_octets_ = 0;
  WaitQueue<Room> room_;
  uint32_t replies_queued_ = 0;  // that are posted and have not left
  size_t queued_octets_ = 0;     // of memory, in those
  WaitQueue<std::monostate> queue_room_;
  bool stopping_ = false;
};

}  // namespace penstock::rpcrdma
