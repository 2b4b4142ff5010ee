#include "rdma/sim/setup.h"

#include <algorithm>
#include <cassert>
#include <stop_token>
#include <utility>

namespace penstock::rdma::sim {
namespace {

std::string Text(const Address& address) { return fmt::format("{}:{}", address.address().to_string(), address.port()); }

}  // namespace

SimProvider::~SimProvider() {
  for (auto& weak : std::exchange(pending_, {})) {
    if (auto pending = weak.lock()) pending->Fail(ConnectError::Kind::kCancelled, "the provider was destroyed");
  }
}

void SimProvider::Watch(const std::shared_ptr<PendingConnection>& pending) {
  std::erase_if(pending_, [](const auto& weak) { return weak.expired(); });
  pending_.push_back(pending);
}

Task<ConnectResult> SimProvider::Connect(Address peer, ConnectOptions options) {
  assert(options.private_data.size() <= network_.options_.max_private_data);
  const Duration limit = std::min(network_.options_.connect_timeout, options.time_limit);
  auto attempt = std::make_shared<Attempt>();
  attempt->from = Address(host_, network_.next_port_++);
  attempt->pool = &pool_;
  const std::stop_token stop = options.stop;
  attempt->options = std::move(options);
  Watch(attempt);
  World& world = network_.world_;
  auto timeout =
      world.Schedule(limit, [attempt] { attempt->Fail(ConnectError::Kind::kTimedOut, "no answer in time"); });
  world.Schedule(network_.Latency(), [this, attempt, peer] {
    if (!attempt->over()) Request(attempt, peer);
  });
  const std::stop_callback on_stop(stop,
                                   [attempt] { attempt->Fail(ConnectError::Kind::kCancelled, "the wait was ended"); });
  ConnectResult result = co_await attempt->done;
  world.Cancel(timeout);
  co_return std::move(result);
}

void SimProvider::Request(const std::shared_ptr<Attempt>& attempt, const Address& peer) {
  World& world = network_.world_;
  auto& planned = network_.faults_.connects;
  if (!planned.empty()) {
    ConnectError::Kind kind = planned.front();
    planned.pop_front();
    if (kind != ConnectError::Kind::kTimedOut) attempt->Fail(kind, "as planned");
    return;  // kTimedOut: the timeout ends the attempt
  }
  bool lost = network_.StepLoses();
  world.Trace("connect from {} to {}, step {}", Text(attempt->from), Text(peer), network_.steps());
  if (lost) return attempt->Fail(ConnectError::Kind::kUnreachable, "the network has lost the request");
  auto queue = network_.FindListener(peer);
  if (!queue) return attempt->Fail(ConnectError::Kind::kRefused, "no listener at " + Text(peer));
  if (queue->free.empty()) {
    queue->waiting.push_back(attempt);
    return;
  }
  SimListener* listener = queue->free.front();
  queue->free.pop_front();
  listener->Give(attempt);
}

void SimProvider::Join(Network& network, BufferPool& pool, const Address& local,
                       const std::shared_ptr<Attempt>& attempt, ConnectOptions options,
                       const std::shared_ptr<PendingConnection>& pending) {
  World& world = network.world_;
  uint64_t number = ++network.stats_.connections;
  ConnectOptions& theirs = attempt->options;
  ConnectionInfo at_server{"sim",
                           local,
                           attempt->from,
                           theirs.private_data,
                           std::min(options.ird, theirs.ord),
                           std::min(options.ord, theirs.ird),
                           ReadDepths{theirs.ird, theirs.ord}};
  ConnectionInfo at_client{"sim",
                           attempt->from,
                           local,
                           std::move(options.private_data),
                           at_server.ord,
                           at_server.ird,
                           ReadDepths{at_server.ird, at_server.ord}};
  auto server = std::make_shared<Side>(network, pool, fmt::format("{}.server", number), std::move(at_server),
                                       std::move(options.receives));
  auto client = std::make_shared<Side>(network, *attempt->pool, fmt::format("{}.client", number), std::move(at_client),
                                       std::move(theirs.receives));
  Side::Join(server, client);
  network.sides_.push_back(server);
  // The delays are random: either side may get its endpoint first.
  world.Schedule(network.Latency() + network.Latency(), [pending, server] {
    auto endpoint = Side::MakeEndpoint(server);
    if (!pending->over()) pending->Finish(std::move(endpoint));
  });
  world.Schedule(network.Latency(), [&network, attempt, client] {
    bool lost = network.StepLoses();
    auto endpoint = Side::MakeEndpoint(client);
    if (attempt->over()) return;
    if (lost) {
      endpoint.reset();
      attempt->Fail(ConnectError::Kind::kUnreachable, "the network has lost the answer");
    } else {
      attempt->Finish(std::move(endpoint));
    }
  });
}

SetupResult<std::unique_ptr<Listener>> SimProvider::Listen(Address local) {
  if (local.port() == 0) local.port(network_.next_port_++);
  auto queue = std::make_shared<ListenQueue>();
  if (!network_.listeners_.emplace(local, queue).second) {
    return std::unexpected(SetupError{"another listener is already at " + Text(local)});
  }
  return std::make_unique<SimListener>(network_, *this, local, std::move(queue));
}

SimListener::SimListener(Network& network, SimProvider& provider, Address local, std::shared_ptr<ListenQueue> queue)
    : network_(network), provider_(provider), local_(std::move(local)), queue_(std::move(queue)) {
  ++queue_->listeners;
}

Task<std::unique_ptr<ConnectionRequest>> SimListener::Next() {
  assert(!next_);
  if (closed_) co_return nullptr;
  while (!queue_->waiting.empty()) {
    auto attempt = std::move(queue_->waiting.front());
    queue_->waiting.pop_front();
    if (!attempt->over()) co_return std::make_unique<SimRequest>(network_, provider_, local_, std::move(attempt));
  }
  OneShot<std::unique_ptr<ConnectionRequest>> next;
  next_ = &next;
  queue_->free.push_back(this);
  std::unique_ptr<ConnectionRequest> request = co_await next;
  co_return std::move(request);  // the listener may be destroyed by now
}

void SimListener::Give(std::shared_ptr<Attempt> attempt) {
  std::exchange(next_, nullptr)->Set(std::make_unique<SimRequest>(network_, provider_, local_, std::move(attempt)));
}

void SimListener::Close() {
  if (std::exchange(closed_, true)) return;
  std::erase(queue_->free, this);
  if (--queue_->listeners == 0) {
    network_.listeners_.erase(local_);
    for (auto& attempt : std::exchange(queue_->waiting, {})) {
      attempt->Fail(ConnectError::Kind::kRefused, "the listener was closed");
    }
  }
  if (next_) std::exchange(next_, nullptr)->Set(nullptr);
}

SetupResult<std::unique_ptr<Listener>> SimListener::Share(Provider& other) {
  auto* provider = dynamic_cast<SimProvider*>(&other);
  if (!provider || closed_) return std::unexpected(SetupError{"cannot share this listener"});
  return std::make_unique<SimListener>(network_, *provider, local_, queue_);
}

SimRequest::~SimRequest() {
  if (!answered_) Reject({});
}

void SimRequest::Reject(std::vector<std::byte> private_data) {
  assert(!answered_ && private_data.size() <= network_.options_.max_private_data);
  answered_ = true;
  network_.world_.Schedule(network_.Latency(), [attempt = attempt_, private_data = std::move(private_data)]() mutable {
    attempt->Fail(ConnectError::Kind::kRejected, "the peer has rejected the connection", std::move(private_data));
  });
}

Task<ConnectResult> SimRequest::Accept(ConnectOptions options) {
  assert(!answered_ && options.private_data.size() <= network_.options_.max_private_data);
  answered_ = true;
  auto pending = std::make_shared<PendingConnection>();
  provider_.Watch(pending);
  if (attempt_->over()) {
    pending->Fail(ConnectError::Kind::kTimedOut, "the peer has given up");
  } else {
    SimProvider::Join(network_, provider_.buffers(), local_, attempt_, std::move(options), pending);
  }
  ConnectResult result = co_await pending->done;
  co_return std::move(result);  // the request and its provider may be destroyed by now
}

}  // namespace penstock::rdma::sim
