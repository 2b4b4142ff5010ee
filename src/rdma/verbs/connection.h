// One connection over a queue pair: what is posted becomes work requests, what completes becomes completions, and the end,
// however it comes, flushes what is left.
//
// Everything of the adapter's is let go at the end: the queue pair first, which fences all memory, then windows,
// registrations and buffers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/poll_policy.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/verbs/send_queue.h"

namespace penstock::rdma::verbs {

// Memory that a peer may reach.
struct Exposed {
  Stag stag;
  uint64_t offset = 0;
  size_t length = 0;
  bool valid = false;
  bool closing = false;            // its invalidation is posted
  ibv_mw* window = nullptr;        // either this,
  ibv_mr* registration = nullptr;  // or this; under a window, of memory that is in no slab
};

// What is, or is to be, a work request.
struct Work {
  Operation operation = Operation::kSend;
  Context context = 0;
  bool silent = false;  // nobody has posted it, or not as a whole: it has no completion
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool solicited = false;
  Gather gather;
  RemoteSegment remote;  // of a Send with Invalidate: the tag
  Bytes local;           // of a Read
  BufferRef owner;
  Access access = Access::kRemoteRead;  // of a binding
  std::shared_ptr<Exposed> exposed;
  std::vector<ibv_mr*> registrations;  // for as long as it lasts
};

inline int RemoteAccess(Access access) {
  return access == Access::kRemoteRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

class Connection : public DeviceUser, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Device> device, std::unique_ptr<CmId> id, BufferPool& buffers, uint32_t receives);
  ~Connection() override;

  // Makes the queue pair and posts the receives. Once, before anything else.
  SetupResult<void> Prepare(std::vector<PostedReceive> receives);
  CmId& id() { return *id_; }
  // The connection is there.
  void Begin(uint16_t ord);
  void Abandon();

  const Traits& traits() const { return traits_; }
  void Start(std::function<void()> on_completions);
  void PostReceive(Context context, BufferRef buffer);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::shared_ptr<Exposed> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, const std::shared_ptr<Exposed>& exposed);
  // A region goes without an invalidation of its own.
  void Close(const std::shared_ptr<Exposed>& exposed);
  void Disconnect();
  size_t Poll(std::span<Completion> out);

  void HandleCompletionEvent() override;
  void HandleAsync(DisconnectReason reason, std::string why) override;

 private:
  enum class State : uint8_t { kOpen, kDraining, kClosing, kLost };
  // Why the connection is about to end.
  struct Fate {
    DisconnectReason reason = DisconnectReason::kFault;
    std::string detail;
  };

  // posting.cc
  void Post(Work work);
  void PostDue();
  bool PostReceives();
  bool PostWorks();
  Work* NextWork(Work& taken);
  bool Prepare(Work& work, ibv_send_wr& request, std::vector<ibv_sge>& pieces);
  bool AddPieces(Work& work, std::vector<ibv_sge>& pieces);
  bool AddSink(Work& work, std::vector<ibv_sge>& pieces);
  uint32_t KeyOf(Work& work, Data& data);
  void Splinter(Work work);

  // exposing.cc
  void PostUnbind(const std::shared_ptr<Exposed>& exposed, Context context, bool silent);
  bool Retire(Exposed& exposed);
  void FailToRegister();

  // completing.cc
  size_t PollQueue();
  void HandleSent(const ibv_wc& wc);
  void HandleReceived(const ibv_wc& wc);
  void HandleFlushed();
  void Finish(Work& work, Status status);

  void Touch();
  void Turn();
  void Cycle();
  void Notify();
  void HandleCm(const CmEvent& event);
  void CheckDrained();
  void Fail(DisconnectReason reason, std::string detail);
  void FailLocally(Operation operation, Context context, std::string why);
  bool Accepts(Operation operation, Context context);
  void Complete(Operation operation, Context context, Status status);
  void CompleteReceive(PostedReceive receive, Status status);
  void EndIfFated();
  void StopQueuePair();
  void Release();
  void FlushAll();

  Loop& loop_;
  const Traits traits_;
  const Limits limits_;
  const QueueSizes sizes_;
  BufferPool& buffers_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Domain> domain_;
  std::unique_ptr<CmId> id_;
  QueuePairContext context_;
  ibv_cq* queue_ = nullptr;
  uint32_t max_inline_ = 0;
  uint16_t ord_ = 0;
  std::random_device entropy_;

  State state_ = State::kOpen;
  std::optional<Fate> fate_;
  std::optional<uint64_t> blamed_;  // the request that ended the connection
  Status blame_ = Status::kFlushed;
  SendQueue send_queue_;
  ReceiveQueue receive_queue_;
  Fifo<Work> pending_;        // not yet handed to the adapter
  Fifo<Work> delayed_reads_;  // until there may be another Read
  Fifo<Work> posted_;         // from request posted_head_ on
  uint64_t posted_head_ = 0;
  uint16_t reads_ = 0;  // under way
  Fifo<Completion> completions_;
  std::unordered_map<uint32_t, std::shared_ptr<Exposed>> exposed_;

  std::function<void()> on_completions_;
  // Before that whoever makes the connection waits for events of id_, and ends it by letting go of this.
  bool begun_ = false;
  bool started_ = false;
  bool armed_ = true;  // on_completions may be called
  bool in_turn_ = false;
  bool turn_posted_ = false;
  bool cycle_posted_ = false;
  PollPolicy polling_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock::rdma::verbs
