#include "library/provider/host_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <stop_token>
#include <utility>
#include <variant>

#include "base/address_text.h"

namespace penstock::library {
namespace {

using rdma::Completion;
using rdma::ConnectError;
using rdma::ConnectOptions;
using rdma::ConnectResult;
using rdma::Context;
using rdma::DisconnectReason;
using rdma::Gather;
using rdma::Operation;
using rdma::ReadDepths;
using rdma::SizeOf;
using rdma::Stag;
using rdma::Status;

class HostMemoryRegion : public rdma::MemoryRegion {
 public:
  HostMemoryRegion(std::shared_ptr<HostRegion> region, std::weak_ptr<HostConnection> connection)
      : region_(std::move(region)), connection_(std::move(connection)) {}
  ~HostMemoryRegion() override {
    if (const auto connection = connection_.lock()) connection->Drop(region_);
  }
  Stag stag() const override { return region_->stag; }
  uint64_t offset() const override { return region_->offset; }
  size_t length() const override { return region_->length; }
  bool valid() const override { return region_->valid; }
  const std::shared_ptr<HostRegion>& region() const { return region_; }

 private:
  const std::shared_ptr<HostRegion> region_;
  const std::weak_ptr<HostConnection> connection_;
};

class AdaptedEndpoint : public rdma::Endpoint {
 public:
  explicit AdaptedEndpoint(std::shared_ptr<HostConnection> connection) : connection_(std::move(connection)) {}
  ~AdaptedEndpoint() override { connection_->Destroy(); }
  const rdma::ConnectionInfo& info() const override { return connection_->info(); }
  const rdma::Limits& limits() const override { return connection_->limits(); }
  BufferPool& buffers() override { return connection_->buffers(); }
  void Start(std::function<void()> on_completions) override { connection_->Start(std::move(on_completions)); }
  void PostReceive(rdma::ReceiveRequest request) override { connection_->PostReceive(request); }
  void PostSend(rdma::SendRequest request) override { connection_->PostSend(std::move(request)); }
  void PostWrite(rdma::WriteRequest request) override { connection_->PostWrite(std::move(request)); }
  void PostRead(rdma::ReadRequest request) override { connection_->PostRead(std::move(request)); }
  std::unique_ptr<rdma::MemoryRegion> Register(Bytes memory, rdma::Access access) override {
    return connection_->Register(memory, access);
  }
  void PostInvalidate(Context context, rdma::MemoryRegion& region) override {
    connection_->PostInvalidate(context, region);
  }
  void Disconnect() override { connection_->Disconnect(); }
  size_t Poll(std::span<Completion> out) override { return connection_->Poll(out); }

 private:
  const std::shared_ptr<HostConnection> connection_;
};

// The request of this number in a queue whose numbers rise, or its end.
template <class Request>
auto Find(std::deque<Request>& queue, uint64_t number) {
  const auto found = std::ranges::lower_bound(queue, number, {}, &Request::number);
  return found != queue.end() && found->number == number ? found : queue.end();
}

ConnectError::Kind KindOfErrno(int error) {
  switch (error) {
    case ECONNREFUSED:
      return ConnectError::Kind::kRefused;
    case ETIMEDOUT:
      return ConnectError::Kind::kTimedOut;
    case EPROTO:
      return ConnectError::Kind::kProtocol;
    default:
      return ConnectError::Kind::kUnreachable;
  }
}

ConnectError::Kind KindOfReason(penstock_rdma_reason reason) {
  switch (reason) {
    case PENSTOCK_RDMA_REFUSED:
      return ConnectError::Kind::kRefused;
    case PENSTOCK_RDMA_REJECTED:
      return ConnectError::Kind::kRejected;
    case PENSTOCK_RDMA_TIMED_OUT:
      return ConnectError::Kind::kTimedOut;
    case PENSTOCK_RDMA_VIOLATED:
    case PENSTOCK_RDMA_TERMINATED:
      return ConnectError::Kind::kProtocol;
    case PENSTOCK_RDMA_CLOSED:
    case PENSTOCK_RDMA_RESET:
    case PENSTOCK_RDMA_FAULT:
    case PENSTOCK_RDMA_UNREACHABLE:
      break;
  }
  return ConnectError::Kind::kUnreachable;
}

std::string TextOf(const EndFacts& end) { return end.detail.empty() ? "the provider gives no reason" : end.detail; }

}  // namespace

HostConnection::HostConnection(std::shared_ptr<HostLoop> loop)
    : loop_(std::move(loop)), number_(HostProvider::NewNumber()) {}

HostConnection::HostConnection(std::shared_ptr<HostLoop> loop, uint64_t number, void* endpoint, PeerFacts peer)
    : loop_(std::move(loop)), number_(number), state_(State::kRequested), endpoint_(endpoint), peer_(std::move(peer)) {}

// ---- set-up

penstock_rdma_terms HostConnection::TermsOf(const ConnectOptions& options,
                                            std::vector<penstock_rdma_receive>& receives) {
  for (const rdma::ReceiveRequest& each : options.receives) receives.push_back(AddReceive(each));
  return {.size = sizeof(penstock_rdma_terms),
          .private_data = options.private_data.data(),
          .private_size = options.private_data.size(),
          .depths = {.ird = options.ird, .ord = options.ord},
          .receives = receives.data(),
          .receive_count = receives.size()};
}

Task<ConnectResult> HostConnection::Connect(rdma::Address to, ConnectOptions options) {
  const std::shared_ptr<HostConnection> self = shared_from_this();
  if (options.private_data.size() > host().properties().max_private_data) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, "too much private data", {}});
  }
  state_ = State::kConnecting;
  asked_ = {.ird = options.ird, .ord = options.ord};
  // The host may tell about the connection before its function has returned.
  loop_->Add(self);
  std::vector<penstock_rdma_receive> receives;
  const penstock_rdma_terms terms = TermsOf(options, receives);
  const std::string address = ToText(to);
  void* endpoint = nullptr;
  const int error =
      host().Call("connect", host().ops().connect, host().self(), number_, address.c_str(), &terms, &endpoint);
  if (error == 0) {
    endpoint_ = endpoint;
    if (!endpoint_) Mistake("connect", "has given no endpoint");
  } else {
    Abandon(KindOfErrno(error), DescribeErrno(error));
  }
  co_return co_await WaitForOpening(options.time_limit, options.stop);
}

Task<ConnectResult> HostConnection::Accept(ConnectOptions options) {
  const std::shared_ptr<HostConnection> self = shared_from_this();
  if (state_ != State::kRequested) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kTimedOut, "the peer has given up", {}});
  }
  if (options.private_data.size() > host().properties().max_private_data) {
    Reject({});
    co_return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, "too much private data", {}});
  }
  state_ = State::kAccepting;
  if (peer_.depths) {
    options.ird = std::min(options.ird, peer_.depths->ord);
    options.ord = std::min(options.ord, peer_.depths->ird);
  }
  info_ = {.provider = host().properties().name,
           .local = peer_.local,
           .peer = peer_.peer,
           .private_data = peer_.private_data,
           .ird = options.ird,
           .ord = options.ord,
           .peer_depths = peer_.depths};
  std::vector<penstock_rdma_receive> receives;
  const penstock_rdma_terms terms = TermsOf(options, receives);
  const int error = host().Call("accept", host().ops().accept, endpoint_, &terms);
  if (error != 0) Abandon(KindOfErrno(error), DescribeErrno(error));
  co_return co_await WaitForOpening(options.time_limit, options.stop);
}

Task<ConnectResult> HostConnection::WaitForOpening(Duration limit, std::stop_token stop) {
  const auto timer = loop_->loop().MakeTimer([this] { Abandon(ConnectError::Kind::kTimedOut, "no answer in time"); });
  timer->ExpireAfter(limit);
  const std::stop_callback on_stop(stop, [this] { Abandon(ConnectError::Kind::kCancelled, "the wait was ended"); });
  ConnectResult result = co_await opened_;
  co_return std::move(result);
}

void HostConnection::Reject(ConstBytes private_data) {
  if (state_ != State::kRequested) return;
  state_ = State::kOver;
  loop_->Forget(number_);
  host().Call("reject", host().ops().reject, std::exchange(endpoint_, nullptr), private_data.data(),
              std::min(private_data.size(), host().properties().max_private_data));
}

void HostConnection::Cancel() { Abandon(ConnectError::Kind::kCancelled, "the provider was destroyed"); }

void HostConnection::Abandon(ConnectError::Kind kind, std::string detail, std::vector<std::byte> private_data) {
  if (state_ != State::kConnecting && state_ != State::kRequested && state_ != State::kAccepting) return;
  const bool is_awaited = state_ != State::kRequested;
  const std::shared_ptr<HostConnection> self = shared_from_this();
  state_ = State::kOver;
  loop_->Forget(number_);
  if (endpoint_) host().Call("close", host().ops().close, std::exchange(endpoint_, nullptr));
  receives_.clear();
  if (is_awaited) opened_.Set(std::unexpected(ConnectError{kind, std::move(detail), std::move(private_data)}));
}

// ---- what the host tells

void HostConnection::Handle(Event& event) {
  if (const auto* const connected = std::get_if<Event::Connected>(&event.what)) {
    HandleConnected(connected->peer.get());
  } else if (const auto* const received = std::get_if<Event::Received>(&event.what)) {
    HandleReceived(*received);
  } else if (const auto* const completed = std::get_if<Event::Completed>(&event.what)) {
    HandleCompleted(completed->request);
  } else if (const auto* const ended = std::get_if<Event::Ended>(&event.what)) {
    HandleEnded(*ended->end);
  }
}

void HostConnection::Mistake(std::string_view function, std::string_view what) {
  host().Blame(function, what);
  if (state_ == State::kOpen) {
    End(DisconnectReason::kFault, fmt::format("a mistake of the provider: {} {}", function, what));
  } else {
    Abandon(ConnectError::Kind::kProtocol, fmt::format("a mistake of the provider: {} {}", function, what));
  }
}

void HostConnection::HandleConnected(const PeerFacts* peer) {
  constexpr auto kFunction = "penstock_provider_connected()";
  if (state_ == State::kConnecting) {
    if (!peer) return Mistake(kFunction, "tells no peer");
    ReadDepths depths = asked_;
    if (peer->depths) {
      depths = {.ird = std::min(asked_.ird, peer->depths->ord), .ord = std::min(asked_.ord, peer->depths->ird)};
    }
    info_ = {.provider = host().properties().name,
             .local = peer->local,
             .peer = peer->peer,
             .private_data = peer->private_data,
             .ird = depths.ird,
             .ord = depths.ord,
             .peer_depths = peer->depths};
  } else if (state_ != State::kAccepting) {
    return Mistake(kFunction, "tells of a connection that is not being made");
  }
  state_ = State::kOpen;
  opened_.Set(std::make_unique<AdaptedEndpoint>(shared_from_this()));
}

void HostConnection::HandleReceived(const Event::Received& received) {
  constexpr auto kFunction = "penstock_provider_received()";
  if (state_ != State::kOpen) return Mistake(kFunction, "tells of a connection that is not open");
  const auto found = Find(receives_, received.request);
  if (found == receives_.end()) return Mistake(kFunction, "tells of a receive that is not posted");
  if (received.length > found->posted.buffer->capacity()) {
    return Mistake(kFunction, "tells a length beyond the end of the buffer");
  }
  if (received.invalidated) {
    const auto region = regions_.find(*received.invalidated);
    if (region == regions_.end()) return Mistake(kFunction, "tells an unknown stag");
    region->second->valid = false;
    regions_.erase(region);
  }
  Completion completion = rdma::ReceiveCompletion(std::move(found->posted), Status::kSuccess);
  receives_.erase(found);
  completion.length = static_cast<uint32_t>(received.length);
  completion.solicited = received.solicited;
  completion.invalidated = received.invalidated;
  Ready(std::move(completion));
}

void HostConnection::HandleCompleted(uint64_t request) {
  constexpr auto kFunction = "penstock_provider_completed()";
  constexpr auto kUnknown = "tells of a request that is not posted";
  if (state_ != State::kOpen) return Mistake(kFunction, "tells of a connection that is not open");
  switch (KindOf(request)) {
    case Kind::kOutgoing: {
      const auto found = Find(outgoing_, request);
      if (found == outgoing_.end() || found->done) return Mistake(kFunction, kUnknown);
      found->done = true;
      while (!outgoing_.empty() && outgoing_.front().done) {
        Ready(rdma::RequestCompletion(outgoing_.front().operation, outgoing_.front().context, Status::kSuccess));
        outgoing_.pop_front();
      }
      return;
    }
    case Kind::kRead: {
      const auto found = Find(reads_, request);
      if (found == reads_.end()) return Mistake(kFunction, kUnknown);
      Ready(rdma::RequestCompletion(Operation::kRead, found->request.context, Status::kSuccess));
      reads_.erase(found);
      return PassReads();
    }
    case Kind::kInvalidation: {
      const auto found = std::ranges::find(invalidations_, request, &Invalidation::number);
      if (found == invalidations_.end()) return Mistake(kFunction, kUnknown);
      const Invalidation invalidation = std::move(*found);
      invalidations_.erase(found);
      if (invalidation.region->valid) {
        invalidation.region->valid = false;
        regions_.erase(invalidation.region->stag);
      }
      if (!invalidation.context) return;
      return Ready(rdma::RequestCompletion(Operation::kInvalidate, *invalidation.context, Status::kSuccess));
    }
    case Kind::kReceive:
      break;
  }
  Mistake(kFunction, kUnknown);
}

void HostConnection::HandleEnded(EndFacts& end) {
  if (state_ != State::kOpen) return Abandon(KindOfReason(end.reason), TextOf(end), std::move(end.private_data));
  switch (end.reason) {
    case PENSTOCK_RDMA_CLOSED:
      return End(disconnecting_ ? DisconnectReason::kLocal : DisconnectReason::kPeerClosed, TextOf(end));
    case PENSTOCK_RDMA_TERMINATED:
      return End(DisconnectReason::kPeerTerminated, TextOf(end), end.request, Status::kRemoteAccess);
    case PENSTOCK_RDMA_VIOLATED:
      return End(DisconnectReason::kProtocolError, TextOf(end));
    case PENSTOCK_RDMA_FAULT:
      return End(DisconnectReason::kFault, TextOf(end), end.request, Status::kLocalError);
    case PENSTOCK_RDMA_RESET:
    case PENSTOCK_RDMA_UNREACHABLE:
    case PENSTOCK_RDMA_REFUSED:
    case PENSTOCK_RDMA_REJECTED:
    case PENSTOCK_RDMA_TIMED_OUT:
      break;
  }
  End(DisconnectReason::kPeerReset, TextOf(end));
}

// ---- requests

void HostConnection::Start(std::function<void()> on_completions) {
  queue_.Start(std::move(on_completions));
  if (!queue_.due() || std::exchange(notification_due_, true)) return;
  loop_->NotifyOwner(*this);
}

void HostConnection::PostReceive(rdma::ReceiveRequest request) {
  if (state_ != State::kOpen) {
    return Ready(rdma::RequestCompletion(Operation::kReceive, request.context, Status::kFlushed));
  }
  const penstock_rdma_receive receive = AddReceive(request);
  if (takes_requests()) {
    Check("post_receive", host().Call("post_receive", host().ops().post_receive, endpoint_, &receive), receive.request);
  }
}

penstock_rdma_receive HostConnection::AddReceive(const rdma::ReceiveRequest& request) {
  const uint64_t number = NextNumber(Kind::kReceive);
  BufferRef buffer = buffers().Allocate(request.size);
  const penstock_rdma_receive receive{.request = number, .buffer = buffer->data(), .size = buffer->capacity()};
  receives_.push_back({number, {request.context, std::move(buffer)}});
  return receive;
}

template <class Call>
void HostConnection::PostOutgoing(Operation operation, Context context, Gather gather, uint32_t most, Call call) {
  if (state_ != State::kOpen) return Ready(rdma::RequestCompletion(operation, context, Status::kFlushed));
  const uint64_t number = NextNumber(Kind::kOutgoing);
  const auto is_file = [](const Data& piece) { return piece.is_file(); };
  const bool is_possible = SizeOf(gather) <= most && std::ranges::none_of(gather, is_file);
  outgoing_.push_back({.number = number, .operation = operation, .context = context, .gather = std::move(gather)});
  if (!is_possible) {
    return End(DisconnectReason::kFault, "a request exceeds the limits of the endpoint", number, Status::kLocalError);
  }
  if (!takes_requests()) return;
  pieces_.clear();
  for (const Data& each : outgoing_.back().gather) {
    if (!each.empty()) pieces_.push_back({.data = each.bytes().data(), .size = each.size()});
  }
  Check(operation == Operation::kSend ? "send" : "write", call(number, pieces_), number);
}

void HostConnection::PostSend(rdma::SendRequest request) {
  const uint32_t stag = request.invalidate ? request.invalidate->value() : 0;
  const uint32_t* const invalidate = request.invalidate ? &stag : nullptr;
  const int solicited = request.solicited ? 1 : 0;
  PostOutgoing(Operation::kSend, request.context, std::move(request.gather), limits().max_message,
               [&](uint64_t number, const std::vector<penstock_rdma_piece>& pieces) {
                 return host().Call("send", host().ops().send, endpoint_, number, pieces.data(), pieces.size(),
                                    invalidate, solicited);
               });
}

void HostConnection::PostWrite(rdma::WriteRequest request) {
  const size_t size = SizeOf(request.gather);
  assert(size <= request.remote.length);
  const penstock_rdma_segment remote{
      .stag = request.remote.stag.value(), .length = static_cast<uint32_t>(size), .offset = request.remote.offset};
  PostOutgoing(Operation::kWrite, request.context, std::move(request.gather), limits().max_transfer,
               [&](uint64_t number, const std::vector<penstock_rdma_piece>& pieces) {
                 return host().Call("write", host().ops().write, endpoint_, number, pieces.data(), pieces.size(),
                                    &remote);
               });
}

void HostConnection::PostRead(rdma::ReadRequest request) {
  assert(request.local.size() == request.remote.length);
  if (state_ != State::kOpen) {
    return Ready(rdma::RequestCompletion(Operation::kRead, request.context, Status::kFlushed));
  }
  if (info_.ord == 0 || request.local.size() > limits().max_transfer) {
    const uint64_t number = NextNumber(Kind::kRead);
    reads_.push_back({.number = number, .request = std::move(request)});
    return End(DisconnectReason::kFault, "a Read exceeds the limits of the connection", number, Status::kLocalError);
  }
  waiting_reads_.push_back(std::move(request));
  PassReads();
}

void HostConnection::PassReads() {
  while (takes_requests() && !waiting_reads_.empty() && reads_.size() < info_.ord) {
    const uint64_t number = NextNumber(Kind::kRead);
    rdma::ReadRequest& request =
        reads_.emplace_back(Read{.number = number, .request = std::move(waiting_reads_.front())}).request;
    waiting_reads_.pop_front();
    const penstock_rdma_segment remote{
        .stag = request.remote.stag.value(), .length = request.remote.length, .offset = request.remote.offset};
    Check("read", host().Call("read", host().ops().read, endpoint_, number, request.local.data(), &remote), number);
  }
}

std::unique_ptr<rdma::MemoryRegion> HostConnection::Register(Bytes memory, rdma::Access access) {
  auto region = std::make_shared<HostRegion>();
  region->length = memory.size();
  if (takes_requests()) {
    uint32_t stag = 0;
    const auto rights = access == rdma::Access::kRemoteRead ? PENSTOCK_RDMA_READ : PENSTOCK_RDMA_WRITE;
    const int error = host().Call("expose", host().ops().expose, endpoint_, memory.data(), memory.size(), rights, &stag,
                                  &region->offset);
    region->stag = Stag(stag);
    if (error != 0) {
      Check("expose", error);
    } else if (regions_.contains(region->stag)) {
      Mistake("expose", "has given the stag of other memory");
    } else {
      region->valid = true;
      regions_.emplace(region->stag, region);
    }
  }
  return std::make_unique<HostMemoryRegion>(std::move(region), weak_from_this());
}

void HostConnection::PostInvalidate(Context context, rdma::MemoryRegion& region) {
  const auto& state = dynamic_cast<HostMemoryRegion&>(region).region();
  if (state->valid) return PassInvalidation(context, state);
  const Status status = state_ == State::kOpen ? Status::kSuccess : Status::kFlushed;
  Ready(rdma::RequestCompletion(Operation::kInvalidate, context, status));
}

void HostConnection::Drop(const std::shared_ptr<HostRegion>& region) {
  if (region->valid) PassInvalidation(std::nullopt, region);
}

void HostConnection::PassInvalidation(std::optional<Context> context, const std::shared_ptr<HostRegion>& region) {
  const uint64_t number = NextNumber(Kind::kInvalidation);
  invalidations_.push_back({.number = number, .context = context, .region = region});
  Check("invalidate", host().Call("invalidate", host().ops().invalidate, endpoint_, number, region->stag.value()),
        number);
}

void HostConnection::Check(const char* function, int error, uint64_t request) {
  if (error == 0) return;
  End(DisconnectReason::kFault, fmt::format("the provider's {}: {}", function, DescribeErrno(error)), request,
      Status::kLocalError);
}

void HostConnection::Disconnect() {
  if (!takes_requests()) return;
  disconnecting_ = true;
  disconnect_limit_ = loop_->loop().MakeTimer(
      [this] { End(DisconnectReason::kLocal, "the provider has not closed the connection in time"); });
  disconnect_limit_->ExpireAfter(host().properties().disconnect_limit);
  Check("disconnect", host().Call("disconnect", host().ops().disconnect, endpoint_));
}

// ---- the end

void HostConnection::Destroy() {
  const std::shared_ptr<HostConnection> self = shared_from_this();
  queue_.Close();
  End(DisconnectReason::kLocal, "destroyed");
}

void HostConnection::End(DisconnectReason reason, std::string detail, uint64_t culprit, Status status) {
  if (state_ != State::kOpen) return;
  const std::shared_ptr<HostConnection> self = shared_from_this();
  state_ = State::kOver;
  if (disconnect_limit_) disconnect_limit_->Cancel();
  loop_->Forget(number_);
  // From now on the host accesses no memory.
  host().Call("close", host().ops().close, std::exchange(endpoint_, nullptr));
  Flush(culprit, status);
  for (const auto& [stag, region] : regions_) region->valid = false;
  regions_.clear();
  Ready(rdma::DisconnectCompletion(reason, std::move(detail)));
}

void HostConnection::Flush(uint64_t culprit, Status status) {
  const auto status_of = [&](uint64_t number) { return number == culprit ? status : Status::kFlushed; };
  for (Receive& each : receives_) Ready(rdma::ReceiveCompletion(std::move(each.posted), status_of(each.number)));
  receives_.clear();
  for (const Outgoing& each : outgoing_) {
    // One that is done has only waited for its turn.
    Ready(rdma::RequestCompletion(each.operation, each.context, each.done ? Status::kSuccess : status_of(each.number)));
  }
  outgoing_.clear();
  for (const Read& each : reads_) {
    Ready(rdma::RequestCompletion(Operation::kRead, each.request.context, status_of(each.number)));
  }
  reads_.clear();
  for (const rdma::ReadRequest& each : waiting_reads_) {
    Ready(rdma::RequestCompletion(Operation::kRead, each.context, Status::kFlushed));
  }
  waiting_reads_.clear();
  for (const Invalidation& each : invalidations_) {
    if (!each.context) continue;
    Ready(rdma::RequestCompletion(Operation::kInvalidate, *each.context, status_of(each.number)));
  }
  invalidations_.clear();
}

void HostConnection::Ready(Completion completion) {
  queue_.Add(std::move(completion));
  if (!queue_.due() || std::exchange(notification_due_, true)) return;
  loop_->NotifyOwner(*this);
}

void HostConnection::Notify() {
  notification_due_ = false;
  queue_.Notify();
}

}  // namespace penstock::library
