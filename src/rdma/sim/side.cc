// The part of Side that serves the owner of the endpoint: posting, completions, loss. side_delivery.cc has the
// delivery.
#include "rdma/sim/side.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace penstock::rdma::sim {
namespace {

class SimRegion : public MemoryRegion {
 public:
  SimRegion(std::shared_ptr<RegionState> state, std::weak_ptr<Side> side)
      : state_(std::move(state)), side_(std::move(side)) {}
  ~SimRegion() override {
    if (auto side = side_.lock()) side->RegionDestroyed(*state_);
  }
  Stag stag() const override { return state_->stag; }
  uint64_t offset() const override { return state_->offset; }
  size_t length() const override { return state_->memory.size(); }
  bool valid() const override { return state_->valid; }
  const std::shared_ptr<RegionState>& state() const { return state_; }

 private:
  std::shared_ptr<RegionState> state_;
  std::weak_ptr<Side> side_;
};

class SimEndpoint : public Endpoint {
 public:
  explicit SimEndpoint(std::shared_ptr<Side> side) : side_(std::move(side)) {}
  ~SimEndpoint() override { side_->Destroy(); }
  const ConnectionInfo& info() const override { return side_->info(); }
  const Limits& limits() const override { return side_->limits(); }
  BufferPool& buffers() override { return side_->buffers(); }
  void Start(std::function<void()> on_completions) override { side_->Start(std::move(on_completions)); }
  void PostReceive(ReceiveRequest request) override { side_->PostReceive(request); }
  void PostSend(SendRequest request) override { side_->PostSend(std::move(request)); }
  void PostWrite(WriteRequest request) override { side_->PostWrite(std::move(request)); }
  void PostRead(ReadRequest request) override { side_->PostRead(std::move(request)); }
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return side_->Register(memory, access);
  }
  void PostInvalidate(Context context, MemoryRegion& region) override { side_->PostInvalidate(context, region); }
  void Disconnect() override { side_->Disconnect(); }
  size_t Poll(std::span<Completion> out) override { return side_->Poll(out); }

  Side& side() const { return *side_; }

 private:
  std::shared_ptr<Side> side_;
};

// Fills memory with a pattern, so that a read before the octets have arrived is noticed.
void Poison(Bytes memory) {
  if (!memory.empty()) std::memset(memory.data(), 0xA5, memory.size());
}

}  // namespace

Side::Side(Network& network, BufferPool& pool, std::string name, ConnectionInfo info,
           const std::vector<ReceiveRequest>& receives)
    : network_(network), world_(network.world()), pool_(pool), name_(std::move(name)), info_(std::move(info)) {
  for (const ReceiveRequest& receive : receives) PostReceive(receive);
}

void Side::Join(const std::shared_ptr<Side>& a, const std::shared_ptr<Side>& b) {
  a->peer_ = b;
  b->peer_ = a;
}

std::unique_ptr<Endpoint> Side::MakeEndpoint(std::shared_ptr<Side> side) {
  return std::make_unique<SimEndpoint>(std::move(side));
}

Side& Side::Of(const Endpoint& endpoint) { return dynamic_cast<const SimEndpoint&>(endpoint).side(); }

void Side::Start(std::function<void()> on_completions) {
  ready_.Start(std::move(on_completions));
  NotifySoon();
  if (auto peer = peer_.lock()) {
    peer->KickOutgoing();
    peer->KickReads();
  }
}

void Side::PostReceive(ReceiveRequest request) {
  receives_.push_back(request);
  if (lost_) FlushAll();
}

BufferRef Side::MakeMessage(size_t size) {
  BufferRef buffer = pool_.Allocate(size);
  if (network_.options_.poison) Poison(buffer->bytes());
  return buffer;
}

void Side::PostSend(SendRequest request) {
  Message message{.kind = Message::Kind::kSend, .context = request.context, .gather = std::move(request.gather)};
  message.size = SizeOf(message.gather);
  message.solicited = request.solicited;
  message.invalidate = request.invalidate;
  Post(std::move(message));
}

void Side::PostWrite(WriteRequest request) {
  Message message{.kind = Message::Kind::kWrite, .context = request.context, .gather = std::move(request.gather)};
  message.size = SizeOf(message.gather);
  message.remote = request.remote;
  assert(message.size <= request.remote.length);
  message.remote.length = static_cast<uint32_t>(message.size);
  Post(std::move(message));
}

void Side::Post(Message message) {
  bool possible = true;
  if (message.kind == Message::Kind::kSend) possible = message.size <= limits().max_message;
  if (message.kind == Message::Kind::kWrite) possible = message.size <= limits().max_transfer;
  const auto is_file = [](const Data& piece) { return piece.is_file(); };
  if (!limits().file_data && std::ranges::any_of(message.gather, is_file)) {
    network_.Violation(name_ + ": a file range is posted, and Limits::file_data is false");
    possible = false;
  }
  if (!possible) message.if_flushed = Status::kLocalError;
  if (possible && message.kind != Message::Kind::kClose && message.kind != Message::Kind::kReadRequest && !broken_ &&
      world_.random().Chance(network_.options_.early_completion)) {
    message.early = true;
    message.staged.resize(message.size);
    size_t at = 0;
    for (const Data& piece : message.gather) {
      possible = possible && piece.CopyTo(Bytes(message.staged).subspan(at, piece.size()));
      at += piece.size();
    }
    if (!possible) message.if_flushed = Status::kLocalError;
    message.gather.clear();
  }
  outgoing_.push_back(std::move(message));
  if (lost_) {
    FlushAll();
  } else if (!possible) {
    Break(DisconnectReason::kFault, DisconnectReason::kPeerReset,
          "a request exceeds the limits of the endpoint, or its file cannot be read");
  } else if (!broken_) {
    CompleteEarly();
    KickOutgoing();
  }
}

void Side::PostRead(ReadRequest request) {
  assert(request.local.size() == request.remote.length);
  if (network_.options_.poison) Poison(request.local);
  bool possible = info_.ord > 0 && request.local.size() <= limits().max_transfer;
  reads_waiting_.push_back({.request = std::move(request)});
  if (lost_) {
    FlushAll();
  } else if (!possible) {
    reads_waiting_.back().if_flushed = Status::kLocalError;
    Break(DisconnectReason::kFault, DisconnectReason::kPeerReset, "a Read exceeds the limits of the connection");
  } else {
    Post({.kind = Message::Kind::kReadRequest});
  }
}

std::unique_ptr<MemoryRegion> Side::Register(Bytes memory, Access access) {
  auto state = std::make_shared<RegionState>();
  state->stag = network_.NewStag();
  // A region of any length fits above this offset.
  state->offset = world_.random().Below(uint64_t{1} << 48);
  state->memory = memory;
  state->access = access;
  state->valid = !lost_;
  if (state->valid) regions_[state->stag] = state;
  return std::make_unique<SimRegion>(state, weak_from_this());
}

void Side::PostInvalidate(Context context, MemoryRegion& region) {
  const auto& state = dynamic_cast<SimRegion&>(region).state();
  state->invalidating = true;
  invalidations_.push_back({.context = context, .region = state});
  if (lost_) {
    FlushAll();
  } else {
    Later(world_.random().UpTo(network_.options_.completion_delay), &Side::InvalidateNext);
  }
}

void Side::InvalidateNext() {
  if (network_.faults_.fail_invalidations) {
    invalidations_.front().if_flushed = Status::kLocalError;
    return Break(DisconnectReason::kFault, DisconnectReason::kPeerReset, "a region cannot be invalidated");
  }
  const Invalidation invalidation = std::move(invalidations_.front());
  invalidations_.pop_front();
  Invalidate(*invalidation.region);
  invalidation.region->invalidating = false;
  Complete(kInvalidations, RequestCompletion(Operation::kInvalidate, invalidation.context, Status::kSuccess));
}

void Side::Invalidate(RegionState& region) {
  region.valid = false;
  regions_.erase(region.stag);
}

void Side::RegionDestroyed(RegionState& region) {
  if (region.valid && !broken_) ++network_.stats_.unfenced_regions;
  if (region.invalidating && !lost_) {
    network_.Violation(name_ + ": a region is destroyed while it is being invalidated");
  }
  Invalidate(region);
}

void Side::Disconnect() {
  if (closing_ || lost_) return;
  closing_ = true;
  Post({.kind = Message::Kind::kClose});
}

void Side::Destroy() {
  if (ready_.notifying()) network_.Violation(name_ + ": an endpoint is destroyed from inside on_completions");
  ready_.Close();
  Break(DisconnectReason::kNone, DisconnectReason::kPeerReset, "the peer's endpoint was destroyed");
  Lost(DisconnectReason::kNone, "destroyed");
}

EndpointState Side::Inspect() const {
  auto open = std::ranges::count_if(outgoing_, [](const Message& message) {
    return !message.completed && (message.kind == Message::Kind::kSend || message.kind == Message::Kind::kWrite);
  });
  return {.posted_receives = receives_.size() + (receiving_ ? 1 : 0),
          .outstanding_requests = open + reads_waiting_.size() + reads_out_.size() + invalidations_.size(),
          .valid_regions = regions_.size()};
}

void Side::Complete(Class requests, Completion completion) {
  completing_[requests].push_back(std::move(completion));
  TimePoint& last = last_release_[requests];
  last = std::max(last, world_.Now() + world_.random().UpTo(network_.options_.completion_delay));
  world_.Schedule(last - world_.Now(), [self = shared_from_this(), requests] { self->Release(requests); });
}

void Side::Release(Class requests) {
  auto& queue = completing_[requests];
  if (queue.empty()) return;  // the loss of the connection was faster
  Completion completion = std::move(queue.front());
  queue.pop_front();
  Ready(std::move(completion));
}

void Side::Break(DisconnectReason here, DisconnectReason there, std::string detail) {
  if (broken_) return;
  world_.Trace("{} breaks: {}", name_, detail);
  broken_ = true;
  LoseAfter(network_.Latency(), here, detail);
  if (auto peer = peer_.lock()) {
    peer->broken_ = true;
    peer->LoseAfter(network_.Latency(), there, std::move(detail));
  }
}

void Side::LoseAfter(Duration delay, DisconnectReason reason, std::string detail) {
  world_.Schedule(delay,
                  [self = shared_from_this(), reason, detail = std::move(detail)] { self->Lost(reason, detail); });
}

void Side::Lost(DisconnectReason reason, std::string detail) {
  if (lost_) return;
  broken_ = lost_ = true;
  if (closing_ && reason == DisconnectReason::kPeerClosed) reason = DisconnectReason::kLocal;
  for (auto& queue : completing_) {
    for (Completion& completion : queue) Ready(std::move(completion));
    queue.clear();
  }
  FlushAll();
  for (auto& [stag, region] : regions_) region->valid = false;
  regions_.clear();
  Ready(DisconnectCompletion(reason, std::move(detail)));
}

void Side::FlushAll() {
  if (receiving_) Ready(ReceiveCompletion(*std::exchange(receiving_, {}), receiving_if_flushed_));
  for (const ReceiveRequest& receive : std::exchange(receives_, {}))
    Ready(RequestCompletion(Operation::kReceive, receive.context, Status::kFlushed));
  for (const Message& message : std::exchange(outgoing_, {})) {
    if (message.completed) continue;
    if (message.kind == Message::Kind::kSend) {
      Ready(RequestCompletion(Operation::kSend, message.context, message.if_flushed));
    } else if (message.kind == Message::Kind::kWrite) {
      Ready(RequestCompletion(Operation::kWrite, message.context, message.if_flushed));
    }
  }
  for (auto* reads : {&reads_out_, &reads_waiting_}) {
    for (const Read& read : std::exchange(*reads, {})) {
      Ready(RequestCompletion(Operation::kRead, read.request.context, read.if_flushed));
    }
  }
  for (const Invalidation& invalidation : std::exchange(invalidations_, {})) {
    invalidation.region->invalidating = false;
    Ready(RequestCompletion(Operation::kInvalidate, invalidation.context, invalidation.if_flushed));
  }
}

void Side::Ready(Completion completion) {
  if (ready_.closed()) return;
  // The context may be a pointer. The trace omits it, so that a seed always gives the same trace.
  world_.Trace("{} completes {} status {} reason {}", name_, static_cast<int>(completion.operation),
               static_cast<int>(completion.status), static_cast<int>(completion.reason));
  ready_.Add(std::move(completion));
  NotifySoon();
}

void Side::NotifySoon() {
  if (notification_scheduled_ || !ready_.due()) return;
  notification_scheduled_ = true;
  world_.Schedule({}, [self = shared_from_this()] {
    self->notification_scheduled_ = false;
    self->ready_.Notify();
  });
}

}  // namespace penstock::rdma::sim
