#include "rdma/verbs/connection.h"

#include <fmt/core.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

constexpr int kRoundsPerTurn = 4;
// For the peer to answer our end of the connection.
constexpr Duration kCloseTimeout = std::chrono::seconds(2);
constexpr std::array<uint32_t, 4> kInlineSizes = {256, 128, 64, 0};

}  // namespace

Connection::Connection(std::shared_ptr<Device> device, std::unique_ptr<CmId> id, BufferPool& buffers, uint32_t receives)
    : loop_(device->loop()),
      traits_(device->traits()),
      limits_(LimitsFor(traits_)),
      sizes_(SizesFor(traits_, receives)),
      buffers_(buffers),
      device_(std::move(device)),
      domain_(device_->DomainForConnection()),
      id_(std::move(id)),
      send_queue_(sizes_.send),
      receive_queue_(sizes_.receive) {}

Connection::~Connection() { Abandon(); }

SetupResult<void> Connection::Prepare(std::vector<PostedReceive> receives) {
  context_ = {&loop_, weak_from_this()};
  if (!domain_->pd()) return std::unexpected(CannotUse(traits_.name, errno));
  queue_ = ::ibv_create_cq(device_->context(), static_cast<int>(sizes_.completion), &context_, device_->channel(), 0);
  if (!queue_) return std::unexpected(SetupError{"cannot make a completion queue: " + DescribeErrno(errno)});
  int error = 0;
  for (uint32_t inlined : kInlineSizes) {
    if (inlined > device_->max_inline) continue;
    ibv_qp_init_attr attributes{};
    attributes.qp_context = &context_;
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.cap = {.max_send_wr = sizes_.send,
                      .max_recv_wr = sizes_.receive,
                      .max_send_sge = traits_.max_sge,
                      .max_recv_sge = 1,
                      .max_inline_data = inlined};
    attributes.qp_type = IBV_QPT_RC;
    if (::rdma_create_qp(id_->get(), domain_->pd(), &attributes) == 0) {
      device_->max_inline = max_inline_ = inlined;
      break;
    }
    error = errno;
  }
  if (!id_->get()->qp) return std::unexpected(SetupError{"cannot make a queue pair: " + DescribeErrno(error)});
  for (PostedReceive& receive : receives) receive_queue_.Add(std::move(receive));
  PostDue();
  if (fate_) return std::unexpected(SetupError{fate_->detail});
  return {};
}

void Connection::Begin(uint16_t ord) {
  ord_ = ord;
  begun_ = true;
  device_->AddUser(shared_from_this());
  if (device_->removed()) Fail(DisconnectReason::kFault, "the RDMA device was removed");
  if (fate_) return Touch();
  ::ibv_req_notify_cq(queue_, 0);
  id_->set_handler([weak = weak_from_this()](const CmEvent& event) {
    if (auto self = weak.lock()) self->HandleCm(event);
  });
  // There may be completions from before the request for events.
  cycle_posted_ = true;
  loop_.Post([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Cycle();
  });
}

void Connection::Abandon() {
  on_completions_ = nullptr;
  if (state_ != State::kLost) {
    state_ = State::kLost;
    Release();
  }
  FlushAll();
  completions_.clear();
}

// ---- turns ----

void Connection::Start(std::function<void()> on_completions) {
  on_completions_ = std::move(on_completions);
  started_ = true;
  Touch();
}

void Connection::Touch() {
  if (in_turn_ || turn_posted_) return;
  turn_posted_ = true;
  loop_.Post([weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->turn_posted_ = false;
    self->Turn();
  });
}

void Connection::Turn() {
  in_turn_ = true;
  for (int round = 0; round < kRoundsPerTurn; ++round) {
    PostDue();
    EndIfFated();
    if (!started_ || !armed_ || completions_.empty()) break;
    Notify();
  }
  PostDue();
  EndIfFated();
  CheckDrained();
  in_turn_ = false;
  if (started_ && armed_ && on_completions_ && !completions_.empty()) Touch();
}

void Connection::Notify() {
  if (!started_ || !armed_ || completions_.empty() || !on_completions_) return;
  armed_ = false;
  on_completions_();
}

size_t Connection::Poll(std::span<Completion> out) {
  size_t count = 0;
  for (; count < out.size() && !completions_.empty(); ++count) out[count] = completions_.pop_front();
  if (count < out.size()) armed_ = true;
  return count;
}

void Connection::HandleCompletionEvent() {
  if (state_ == State::kLost) return;
  polling_.HandleWoken(loop_.Now());
  if (!cycle_posted_) Cycle();
}

void Connection::Cycle() {
  const std::shared_ptr<Connection> self = shared_from_this();
  cycle_posted_ = false;
  if (state_ == State::kLost) return;
  bool found = PollQueue() > 0;
  if (found) Turn();
  if (state_ == State::kLost) return;
  if (polling_.HandlePolled(found, loop_.Now()) == PollPolicy::Next::kSleep) {
    ::ibv_req_notify_cq(queue_, 0);
    // What has completed before that gives no event.
    found = PollQueue() > 0;
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

void Connection::Disconnect() {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  Touch();
}

// Whether what Disconnect() waits for is done: everything is sent, and our Reads are answered.
void Connection::CheckDrained() {
  if (state_ != State::kDraining || !pending_.empty() || !delayed_reads_.empty() || !send_queue_.empty()) return;
  state_ = State::kClosing;
  ::rdma_disconnect(id_->get());
  timer_ = loop_.MakeTimer([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Fail(DisconnectReason::kLocal, "closed by us; the peer has not answered");
  });
  timer_->ExpireAfter(kCloseTimeout);
}

void Connection::HandleCm(const CmEvent& event) {
  if (state_ == State::kLost) return;
  if (event.kind != CmEvent::Kind::kLibrary || event.is(RDMA_CM_EVENT_DEVICE_REMOVAL)) {
    return Fail(DisconnectReason::kFault, "the RDMA device was removed");
  }
  if (event.is(RDMA_CM_EVENT_ADDR_CHANGE)) return Fail(DisconnectReason::kFault, "the address has moved");
  if (!event.is(RDMA_CM_EVENT_DISCONNECTED)) return;
  // What was received before comes first.
  PollQueue();
  if (state_ == State::kClosing || state_ == State::kDraining) {
    Fail(DisconnectReason::kLocal, "closed by us");
  } else if (event.status != 0) {
    Fail(DisconnectReason::kPeerReset, DescribeErrno(std::abs(event.status)));
  } else {
    Fail(DisconnectReason::kPeerClosed, "closed by the peer");
  }
}

void Connection::HandleAsync(DisconnectReason reason, std::string why) {
  if (state_ != State::kLost) Fail(reason, std::move(why));
}

void Connection::Fail(DisconnectReason reason, std::string detail) {
  if (fate_ || state_ == State::kLost) return;
  fate_ = Fate{reason, std::move(detail)};
  // A device that has gone waits for nobody.
  if (begun_ && device_->removed()) return EndIfFated();
  Touch();
}

void Connection::EndIfFated() {
  if (!fate_ || !begun_ || state_ == State::kLost) return;
  if (!device_->removed()) PollQueue();
  state_ = State::kLost;
  log::debug("{}: connection ended: {}", traits_.name, fate_->detail);
  if (timer_) timer_->Cancel();
  Release();
  FlushAll();
  Completion completion;
  completion.operation = Operation::kDisconnected;
  completion.reason = fate_->reason;
  completion.detail = fate_->detail;
  completions_.push_back(std::move(completion));
  Touch();
}

// From here on the adapter refuses what the peer asks for.
void Connection::StopQueuePair() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ::ibv_modify_qp(id_->get()->qp, &attributes, IBV_QP_STATE);
}

// Lets go of everything that is the adapter's. When the queue pair has gone, nobody reaches any memory.
void Connection::Release() {
  if (id_ && id_->get()->qp) {
    ::rdma_disconnect(id_->get());
    StopQueuePair();
    // A window that is bound holds on to its queue pair.
    for (auto& [stag, exposed] : exposed_) {
      if (exposed->window) ::ibv_dealloc_mw(std::exchange(exposed->window, nullptr));
    }
    ::rdma_destroy_qp(id_->get());
  }
  for (auto& [stag, exposed] : exposed_) {
    exposed->valid = false;
    if (exposed->registration) ::ibv_dereg_mr(std::exchange(exposed->registration, nullptr));
  }
  exposed_.clear();
  if (queue_) ::ibv_destroy_cq(std::exchange(queue_, nullptr));
}

void Connection::FlushAll() {
  send_queue_.Flush([this](uint64_t number) {
    Finish(posted_[number - posted_head_], number == blamed_ ? blame_ : Status::kFlushed);
  });
  posted_.clear();
  for (Fifo<Work>* works : {&delayed_reads_, &pending_}) {
    while (!works->empty()) {
      Work work = works->pop_front();
      Finish(work, Status::kFlushed);
    }
  }
  receive_queue_.Flush([this](PostedReceive receive) { CompleteReceive(std::move(receive), Status::kFlushed); });
  domain_.reset();
  id_.reset();
  device_.reset();
}

// ---- what is posted too late, or is impossible ----

bool Connection::Accepts(Operation operation, Context context) {
  if (state_ == State::kOpen && !fate_) return true;
  Complete(operation, context, Status::kFlushed);
  Touch();
  return false;
}

void Connection::FailLocally(Operation operation, Context context, std::string why) {
  Complete(operation, context, Status::kLocalError);
  Fail(DisconnectReason::kFault, std::move(why));
}

void Connection::PostReceive(Context context, BufferRef buffer) {
  if (state_ == State::kLost) {
    CompleteReceive({context, std::move(buffer)}, Status::kFlushed);
    return Touch();
  }
  receive_queue_.Add({context, std::move(buffer)});
  // While completions are handled, receives are posted again in numbers: they go together. Otherwise the receive is in place
  // when this returns.
  if (!in_turn_ && !fate_ && receive_queue_.due() > 0) PostReceives();
}

void Connection::Complete(Operation operation, Context context, Status status) {
  Completion completion;
  completion.operation = operation;
  completion.context = context;
  completion.status = status;
  completions_.push_back(std::move(completion));
}

void Connection::CompleteReceive(PostedReceive receive, Status status) {
  Completion completion;
  completion.context = receive.context;
  completion.status = status;
  completion.buffer = std::move(receive.buffer);
  completions_.push_back(std::move(completion));
}

}  // namespace penstock::rdma::verbs
