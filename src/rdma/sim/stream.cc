#include "rdma/sim/stream.h"

#include <algorithm>
#include <asio/io_context.hpp>
#include <cassert>
#include <stop_token>

#include "rdma/sim/setup.h"

namespace penstock::rdma::sim {

// ---- the connection ----

void Stream::Send(size_t from, Item item) {
  if (over_) return;
  const size_t to = 1 - from;
  World& world = network_.world_;
  arrivals_[to] = std::max(arrivals_[to], world.Now() + network_.Latency());
  world.Schedule(arrivals_[to] - world.Now(),
                 [self = shared_from_this(), to, item = std::move(item)]() mutable { self->Deliver(to, item); });
}

void Stream::Deliver(size_t to, Item& item) {
  if (over_) return;
  if (network_.StepLoses()) {
    network_.world_.Trace("step {} loses a stream", network_.steps());
    return Lose();
  }
  StreamSocket* const socket = ends_[to];
  if (!socket) return;  // it is closed, and the other end will learn of that
  if (auto* const octets = std::get_if<std::vector<std::byte>>(&item)) {
    socket->Receive(std::move(*octets));
  } else if (const auto* const attempt = std::get_if<std::shared_ptr<Attempt>>(&item)) {
    socket->ReceiveRequest(*attempt);
  } else {
    over_ = true;
    socket->HandleEnd();
  }
}

void Stream::Lose() {
  if (std::exchange(over_, true)) return;
  for (const size_t end : {0, 1}) {
    network_.world_.Schedule(network_.Latency(), [self = shared_from_this(), end] {
      if (self->ends_[end]) self->ends_[end]->HandleEnd();
    });
  }
}

bool Stream::IsOf(const IpAddress& host) const {
  return std::ranges::any_of(ends_, [&](const StreamSocket* end) {
    return end && (end->local().address() == host || end->peer().address() == host);
  });
}

void Stream::HandleSteppedUp() {
  over_ = true;
  for (StreamSocket* const socket : ends_) {
    if (socket) socket->HandleSteppedUp();
  }
}

// ---- its ends ----

StreamSocket::StreamSocket(std::shared_ptr<Stream> stream, size_t end, Address local, Address peer)
    : stream_(std::move(stream)), end_(end), local_(std::move(local)), peer_(std::move(peer)) {
  stream_->Attach(end_, *this);
}

StreamSocket::~StreamSocket() {
  Close();
  stream_->Detach(end_);
}

Task<std::unique_ptr<StreamSocket>> StreamSocket::Connect(Network& network, Provider& provider, Address peer) {
  const Address local(dynamic_cast<SimProvider&>(provider).host(), network.next_port_++);
  OneShot<std::unique_ptr<StreamSocket>> done;
  network.world_.Schedule(network.Latency(), [&] {
    auto& planned = network.faults_.connects;
    const bool fails = network.StepLoses() || !planned.empty();
    if (!planned.empty()) planned.pop_front();
    network.world_.Trace("stream from {} to port {}, step {}", local.address().to_string(), peer.port(),
                         network.steps());
    const auto listener = network.stream_listeners_.find(Address(asio::ip::address_v4::any(), peer.port()));
    if (fails || listener == network.stream_listeners_.end()) return done.Set(nullptr);
    const auto stream = std::make_shared<Stream>(network);
    network.streams_.push_back(stream);
    // The ends are made one after the other, so that the client exists before the server can send.
    std::unique_ptr<StreamSocket> client(new StreamSocket(stream, 0, local, peer));
    listener->second->accept_(std::unique_ptr<StreamSocket>(new StreamSocket(stream, 1, peer, local)));
    network.world_.Schedule(network.Latency(), [&done, client = std::make_shared<std::unique_ptr<StreamSocket>>(
                                                           std::move(client))] { done.Set(std::move(*client)); });
  });
  std::unique_ptr<StreamSocket> socket = co_await done;
  co_return std::move(socket);
}

void StreamSocket::set_owner(Owner* owner) {
  owner_ = owner;
  if (!owner_ || waiting_.empty()) return;
  stream_->network().world().Schedule(Duration::zero(), [stream = stream_, end = end_] { stream->GiveWaiting(end); });
}

bool StreamSocket::GiveWaiting() {
  if (!owner_ || waiting_.empty()) return false;
  std::vector<std::byte> octets = std::move(waiting_.front());
  waiting_.pop_front();
  owner_->HandleReceived(std::move(octets));
  return true;
}

void StreamSocket::Send(std::vector<std::byte> octets) {
  if (!closed_) stream_->Send(end_, std::move(octets));
}

void StreamSocket::Close() {
  if (std::exchange(closed_, true)) return;
  stream_->Detach(end_);
  stream_->Send(end_, Stream::Close());
}

ReleasedSocket StreamSocket::Release(std::unique_ptr<StreamSocket> socket) {
  // No event of the system ever reaches this context.
  static asio::io_context unused;
  socket->owner_ = nullptr;
  return {.socket = asio::ip::tcp::socket(unused), .read_ahead = {}, .simulated = std::move(socket)};
}

void StreamSocket::Receive(std::vector<std::byte> octets) {
  if (owner_ && waiting_.empty()) {
    owner_->HandleReceived(std::move(octets));
  } else if (stepping_) {
    stepping_->Fail(ConnectError::Kind::kProtocol, "the peer sends no MPA frame");
  } else {
    waiting_.push_back(std::move(octets));
  }
}

void StreamSocket::ReceiveRequest(const std::shared_ptr<Attempt>& attempt) {
  if (!accept_) return Close();  // the end has not stepped up
  // The function ends with the socket, which the caller of StepUp() may destroy.
  const auto accept = std::move(accept_);
  accept(attempt);
}

void StreamSocket::HandleEnd() {
  if (std::exchange(closed_, true)) return;
  stream_->Detach(end_);
  if (owner_) return owner_->HandleClosed();
  const auto stepping = stepping_;
  if (stepping) stepping->Fail(ConnectError::Kind::kUnreachable, "the network has lost the connection");
}

// ---- listeners ----

StreamListener::StreamListener(Network& network, Address local, Accept accept)
    : network_(network), local_(std::move(local)), accept_(std::move(accept)) {
  const bool is_new = network_.stream_listeners_.emplace(local_, this).second;
  assert(is_new);
  (void)is_new;
}

StreamListener::~StreamListener() { network_.stream_listeners_.erase(local_); }

// ---- stepping up ----

Task<ConnectResult> SimProvider::StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                                        ConnectOptions options) {
  if (!dynamic_cast<StreamSocket*>(socket.simulated.get())) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kUnreachable, "the socket is not of this network", {}});
  }
  std::unique_ptr<StreamSocket> stream(static_cast<StreamSocket*>(socket.simulated.release()));
  if (!last_octets.empty()) stream->Send(std::move(last_octets));
  World& world = network_.world_;
  const Duration limit = options.time_limit;
  std::shared_ptr<PendingConnection> pending;
  if (role == StepUpRole::kInitiator) {
    auto attempt = std::make_shared<Attempt>();
    attempt->from = stream->local();
    attempt->pool = &pool_;
    attempt->options = std::move(options);
    stream->stream_->Send(stream->end_, attempt);
    pending = std::move(attempt);
  } else {
    pending = std::make_shared<PendingConnection>();
    const std::weak_ptr<PendingConnection> weak = pending;
    stream->accept_ = [this, weak, stream = stream.get(),
                       given = std::make_shared<ConnectOptions>(options)](const std::shared_ptr<Attempt>& attempt) {
      const auto accepting = weak.lock();
      if (!accepting || accepting->over() || attempt->over()) return;
      stream->stream_->HandleSteppedUp();
      Join(network_, pool_, stream->local(), attempt, std::move(*given), accepting);
    };
  }
  Watch(pending);
  stream->stepping_ = pending;
  if (stream->closed()) pending->Fail(ConnectError::Kind::kUnreachable, "the connection was lost");
  const auto timeout =
      world.Schedule(limit, [pending] { pending->Fail(ConnectError::Kind::kTimedOut, "no MPA frame in time"); });
  const std::stop_token stop = options.stop;
  const std::stop_callback on_stop(stop,
                                   [pending] { pending->Fail(ConnectError::Kind::kCancelled, "the wait was ended"); });
  ConnectResult result = co_await pending->done;
  world.Cancel(timeout);
  co_return std::move(result);  // the provider may be destroyed by now
}

}  // namespace penstock::rdma::sim
