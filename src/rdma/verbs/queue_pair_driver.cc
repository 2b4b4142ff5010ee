#include "rdma/verbs/queue_pair_driver.h"

#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

// The peer has this much time to answer our end of the connection.
constexpr Duration kCloseTimeout = std::chrono::seconds(2);
// After the first flushed request another event says within this time why the connection has ended.
constexpr Duration kReasonTimeout = std::chrono::milliseconds(100);

}  // namespace

QueuePairDriver::QueuePairDriver(std::shared_ptr<Device> device, std::unique_ptr<CmId> id, BufferPool& buffers,
                                 uint32_t receives)
    : loop_(device->loop()),
      traits_(device->traits()),
      limits_(LimitsFor(traits_)),
      sizes_(SizesFor(traits_, receives)),
      device_(std::move(device)),
      domain_(device_->DomainForConnection()),
      buffers_(buffers),
      queue_pair_(std::move(id)),
      work_queue_(sizes_.send),
      receive_queue_(sizes_.receive),
      builder_(traits_, *domain_, buffers),
      regions_(traits_, *domain_, [this] { return entropy_(); }) {}

QueuePairDriver::~QueuePairDriver() { Abandon(); }

SetupResult<void> QueuePairDriver::Prepare(const std::vector<ReceiveRequest>& receives) {
  if (!domain_->pd()) return std::unexpected(CannotUse(traits_.name, errno));
  PENSTOCK_CHECK(queue_pair_.Create(*device_, domain_->pd(), sizes_, {&loop_, weak_from_this()}));
  builder_.set_max_inline(queue_pair_.max_inline());
  for (const ReceiveRequest& receive : receives) AddReceive(receive);
  PostDue();
  if (failure_) return std::unexpected(SetupError{failure_->detail});
  return {};
}

void QueuePairDriver::Begin(uint16_t ord) {
  work_queue_.set_ord(ord);
  begun_ = true;
  device_->AddUser(shared_from_this());
  if (device_->removed()) Fail(DisconnectReason::kFault, "the RDMA device was removed");
  if (failure_) return Touch();
  queue_pair_.RequestEvent();
  id().set_handler([weak = weak_from_this()](const CmEvent& event) {
    if (auto self = weak.lock()) self->HandleCm(event);
  });
  // Completions from before RequestEvent() give no event.
  cycle_posted_ = true;
  loop_.Post([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Cycle();
  });
}

void QueuePairDriver::Abandon() {
  completions_.Close();
  if (state_ != State::kLost) {
    state_ = State::kLost;
    Release();
  }
  FlushAll();
}

// ---- turns ----

void QueuePairDriver::Start(std::function<void()> on_completions) {
  completions_.Start(std::move(on_completions));
  Touch();
}

void QueuePairDriver::Touch() {
  if (in_turn_ || turn_posted_) return;
  turn_posted_ = true;
  loop_.Post([weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->turn_posted_ = false;
    self->Turn();
  });
}

void QueuePairDriver::Turn() {
  in_turn_ = true;
  const auto send = [this] {
    PostDue();
    EndIfFailed();
  };
  send();
  completions_.RunTurn(send);
  CheckDrained();
  in_turn_ = false;
  if (completions_.due()) Touch();
}

void QueuePairDriver::HandleCompletionEvent() {
  if (state_ == State::kLost) return;
  polling_.HandleWoken(loop_.Now());
  if (!cycle_posted_) Cycle();
}

// Polls the adapter once, and then either again in the next turn of the loop or when the next event comes.
void QueuePairDriver::Cycle() {
  const std::shared_ptr<QueuePairDriver> self = shared_from_this();
  cycle_posted_ = false;
  if (state_ == State::kLost) return;
  bool found = PollAdapter() > 0;
  if (found) Turn();
  if (state_ == State::kLost) return;
  if (polling_.HandlePolled(found, loop_.Now()) == PollPolicy::Next::kSleep) {
    queue_pair_.RequestEvent();
    // Completions from before RequestEvent() give no event.
    found = PollAdapter() > 0;
    if (!found) return;
    Turn();
    if (state_ == State::kLost) return;
    polling_.HandleWoken(loop_.Now());
  }
  cycle_posted_ = true;
  loop_.Post([weak = weak_from_this()] {
    if (auto live = weak.lock()) live->Cycle();
  });
}

// ---- the end ----

void QueuePairDriver::Disconnect() {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  Touch();
}

// Closes the connection when Disconnect() was called, all requests are sent and our Reads are answered.
void QueuePairDriver::CheckDrained() {
  if (state_ != State::kDraining || !work_queue_.empty()) return;
  state_ = State::kClosing;
  queue_pair_.Disconnect();
  timer_ = loop_.MakeTimer([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Fail(DisconnectReason::kLocal, "closed by us; the peer did not answer");
  });
  timer_->ExpireAfter(kCloseTimeout);
}

void QueuePairDriver::HandleCm(const CmEvent& event) {
  if (state_ == State::kLost) return;
  if (event.kind != CmEvent::Kind::kLibrary || event.is(RDMA_CM_EVENT_DEVICE_REMOVAL)) {
    return Fail(DisconnectReason::kFault, "the RDMA device was removed");
  }
  if (event.is(RDMA_CM_EVENT_ADDR_CHANGE)) {
    return Fail(DisconnectReason::kFault, "the IP address has moved to another device");
  }
  if (!event.is(RDMA_CM_EVENT_DISCONNECTED)) return;
  // Messages that were received before the end come first.
  PollAdapter();
  if (state_ == State::kClosing || state_ == State::kDraining) {
    Fail(DisconnectReason::kLocal, "closed by us");
  } else if (event.status != 0) {
    Fail(DisconnectReason::kPeerReset, DescribeErrno(std::abs(event.status)));
  } else {
    Fail(DisconnectReason::kPeerClosed, "closed by the peer");
  }
}

void QueuePairDriver::HandleAsync(DisconnectReason reason, std::string why) {
  if (state_ != State::kLost) Fail(reason, std::move(why));
}

// The adapter has flushed a request: the connection has ended, and another event says why. If none comes, the timer
// ends it.
void QueuePairDriver::HandleFlushed() {
  if (failure_ || timer_ || state_ == State::kLost) return;
  timer_ = loop_.MakeTimer([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Fail(DisconnectReason::kPeerReset, "the queue pair has failed");
  });
  timer_->ExpireAfter(kReasonTimeout);
}

// Ends the connection at the end of the turn. The first reason counts.
void QueuePairDriver::Fail(DisconnectReason reason, std::string detail) {
  if (failure_ || state_ == State::kLost) return;
  failure_ = Failure{reason, std::move(detail)};
  // The kernel removes a device only when its users have closed it, so a removed device must not wait for a turn.
  if (begun_ && device_->removed()) return EndIfFailed();
  Touch();
}

void QueuePairDriver::EndIfFailed() {
  if (!failure_ || !begun_ || state_ == State::kLost) return;
  if (!device_->removed()) PollAdapter();
  state_ = State::kLost;
  log::debug("{}: connection ended: {}", traits_.name, failure_->detail);
  if (timer_) timer_->Cancel();
  Release();
  FlushAll();
  completions_.Add(DisconnectCompletion(failure_->reason, failure_->detail));
  Touch();
}

// Releases the resources of the adapter. After the queue pair is destroyed, the peer can access no memory.
void QueuePairDriver::Release() {
  if (queue_pair_.created()) {
    queue_pair_.Disconnect();
    queue_pair_.Stop();
    regions_.ReleaseWindows();
    queue_pair_.Destroy();
  }
  regions_.ReleaseRegistrations();
  queue_pair_.DestroyCompletionQueue();
}

void QueuePairDriver::FlushAll() {
  work_queue_.Flush([this](WorkRequest& work, Status status) { Finish(work, status); });
  receive_queue_.Flush(
      [this](PostedReceive receive) { completions_.Add(ReceiveCompletion(std::move(receive), Status::kFlushed)); });
  domain_.reset();
  queue_pair_.ReleaseId();
  device_.reset();
}

void QueuePairDriver::FailLocally(Operation operation, Context context, std::string why) {
  completions_.Add(RequestCompletion(operation, context, Status::kLocalError));
  Fail(DisconnectReason::kFault, std::move(why));
}

// Reads errno. Warns the operator, who can raise the limit on locked memory: that is the most likely cause.
void QueuePairDriver::FailToRegister() {
  const std::string why = CannotRegister(traits_.name, errno).message;
  if (!failure_) log::warn("{}", why);
  Fail(DisconnectReason::kFault, why);
}

}  // namespace penstock::rdma::verbs
