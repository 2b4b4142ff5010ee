// Drives one connection over a queue pair of an adapter. The driver moves work requests from its queues to the adapter,
// turns the adapter's completions into those of the endpoint, and ends the connection. The decisions are in machines
// without I/O: WorkQueue, ReceiveQueue, ExposedRegions, RequestBuilder, PollPolicy and CompletionQueue.
//
// At the end of the connection the driver releases everything that the adapter holds: the queue pair first, which
// fences all memory, then windows, registrations and buffers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rdma/completion_queue.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/exposed_regions.h"
#include "rdma/verbs/poll_policy.h"
#include "rdma/verbs/queue_pair.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/verbs/request_builder.h"
#include "rdma/verbs/work_queue.h"

namespace penstock::rdma::verbs {

// Belongs to the device's loop.
class QueuePairDriver : public DeviceUser, public std::enable_shared_from_this<QueuePairDriver> {
 public:
  // `receives`: the number of receives that Prepare() posts.
  QueuePairDriver(std::shared_ptr<Device> device, std::unique_ptr<CmId> id, BufferPool& buffers, uint32_t receives);
  ~QueuePairDriver() override;

  // Makes the queue pair and posts the receives. Called once, before anything else. Until Begin() the caller reads the
  // events of id(), and gives the connection up by destroying the driver.
  SetupResult<void> Prepare(const std::vector<ReceiveRequest>& receives);
  CmId& id() { return queue_pair_.id(); }
  // The connection is established. The driver handles the events of id() from now on.
  void Begin(uint16_t ord);
  // The endpoint is destroyed: ends the connection at once and drops all completions.
  void Abandon();

  const Traits& traits() const { return traits_; }

  // These are the functions of Endpoint with the same names.
  void Start(std::function<void()> on_completions);
  void PostReceive(ReceiveRequest request);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::shared_ptr<ExposedRegion> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, const std::shared_ptr<ExposedRegion>& region);
  // Invalidates the region without a completion, if that is not done or under way.
  void Close(const std::shared_ptr<ExposedRegion>& region);
  void Disconnect();
  size_t Poll(std::span<Completion> out) { return completions_.Poll(out); }

  void HandleCompletionEvent() override;
  void HandleAsync(DisconnectReason reason, std::string why) override;

 private:
  enum class State : uint8_t { kOpen, kDraining, kClosing, kLost };
  struct Failure {
    DisconnectReason reason = DisconnectReason::kFault;
    std::string detail;
  };

  // Turns of the loop.
  void Touch();
  void Turn();
  void Cycle();

  // From the queues to the adapter.
  bool Accepts(Operation operation, Context context);
  void Post(WorkRequest work);
  void PostDue();
  // Gives a receive its memory, and queues it for the adapter.
  void AddReceive(const ReceiveRequest& request) {
    receive_queue_.Add({request.context, buffers_.Allocate(request.size)});
  }
  bool PostReceives();
  bool PostBatch();

  // These functions handle the completions of the adapter.
  size_t PollAdapter();
  void HandleSent(const ibv_wc& wc);
  void HandleReceived(const ibv_wc& wc);
  void HandleFlushed();
  void Finish(WorkRequest& work, Status status);
  bool Retire(ExposedRegion& region);

  // The end of the connection.
  void HandleCm(const CmEvent& event);
  void CheckDrained();
  void Fail(DisconnectReason reason, std::string detail);
  void FailLocally(Operation operation, Context context, std::string why);
  void FailToRegister();
  void EndIfFailed();
  void Release();
  void FlushAll();

  Loop& loop_;
  const Traits traits_;
  const Limits limits_;
  const QueueSizes sizes_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<ProtectionDomain> domain_;
  BufferPool& buffers_;
  QueuePair queue_pair_;
  std::random_device entropy_;

  State state_ = State::kOpen;
  std::optional<Failure> failure_;  // why the connection is about to end, or has ended
  WorkQueue work_queue_;
  ReceiveQueue receive_queue_;
  RequestBuilder builder_;
  ExposedRegions regions_;
  CompletionQueue completions_;

  bool begun_ = false;
  bool in_turn_ = false;
  bool turn_posted_ = false;
  bool cycle_posted_ = false;
  PollPolicy polling_;
  std::unique_ptr<Timer> timer_;  // for the end of the connection
};

}  // namespace penstock::rdma::verbs
