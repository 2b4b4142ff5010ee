#include "rdma/iwarp/listener.h"

#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <list>
#include <system_error>

#include "base/connect_tcp.h"
#include "base/descriptor_shortage.h"
#include "base/log.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/mpa_startup.h"
#include "rdma/iwarp/pending_peers.h"
#include "rdma/iwarp/provider.h"

namespace penstock::rdma::iwarp {
namespace {

using asio::ip::tcp;

// The pause after an accept that failed. Most likely the process has no free descriptor, and other connections must end
// first.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

class Request : public ConnectionRequest {
 public:
  Request(std::shared_ptr<ProviderState> state, std::unique_ptr<Exchange> exchange, Address peer, MpaFrame frame)
      : state_(std::move(state)), exchange_(std::move(exchange)), peer_(std::move(peer)), frame_(std::move(frame)) {}
  ~Request() override {
    if (exchange_) RejectNow({});
  }

  const Address& peer() const override { return peer_; }
  ConstBytes private_data() const override { return frame_.private_data; }
  std::optional<ReadDepths> read_depths() const override { return DepthsOf(frame_); }

  Task<ConnectResult> Accept(ConnectOptions options) override {
    if (options.private_data.size() > MaxPrivateData(frame_.enhanced.has_value())) {
      co_return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, "too much private data", {}});
    }
    // The coroutine may outlive this request, so that it owns its state.
    co_return co_await Respond(state_, std::move(exchange_), frame_, std::move(options));
  }

  void Reject(std::vector<std::byte> private_data) override {
    if (exchange_) RejectNow(std::move(private_data));
  }

  // The request keeps its place until the consumer takes it.
  void set_place(std::unique_ptr<PendingPeers::Place> place) { place_ = std::move(place); }

 private:
  void RejectNow(std::vector<std::byte> private_data) {
    private_data.resize(std::min(private_data.size(), MaxPrivateData(frame_.enhanced.has_value())));
    const MpaFrame reply = RejectRequest(PreferencesOf(state_->options, {}), frame_, std::move(private_data));
    exchange_->WriteNow(reply.Serialize());
    exchange_.reset();
  }

  std::shared_ptr<ProviderState> state_;
  std::unique_ptr<Exchange> exchange_;  // null after the answer
  Address peer_;
  MpaFrame frame_;
  std::unique_ptr<PendingPeers::Place> place_;
};

// The state that the listener shares with its coroutines.
struct ListenerState {
  ListenerState(std::shared_ptr<ProviderState> provider_state, tcp::acceptor listening)
      : provider(std::move(provider_state)),
        acceptor(std::move(listening)),
        shortage(provider->options.shortage ? provider->options.shortage : std::make_shared<DescriptorShortage>()),
        pending(provider->options.max_pending) {}

  std::shared_ptr<ProviderState> provider;
  tcp::acceptor acceptor;
  const std::shared_ptr<DescriptorShortage> shortage;
  Address local;
  std::shared_ptr<AcceptTurns> turns;
  std::unique_ptr<AcceptTurns::Member> turn;  // null after Close()
  bool closed = false;
  bool accepting = false;  // waits for the next peer
  std::unique_ptr<Timer> pause;
  PendingPeers pending;                          // peers whose requests are incomplete or in `requests`
  std::list<std::unique_ptr<Request>> requests;  // complete requests
  OneShot<std::monostate>* waiting = nullptr;    // lives in the frame of a waiting Next()
};

// Receives the request of one peer.
Task<void> Greet(std::shared_ptr<ListenerState> state, std::unique_ptr<Exchange> exchange, Address peer) {
  std::function<void()> on_dropped = [&exchange] { exchange->Cancel(); };
  std::unique_ptr<PendingPeers::Place> place = state->pending.Add(peer.address(), std::move(on_dropped));
  auto frame = co_await exchange->Read(MpaFrame::Kind::kRequest);
  if (!frame) {
    // RFC 5044 §7.1.2: a malformed request closes the connection.
    if (!state->closed) log::debug("iwarp: {}:{}: {}", peer.address().to_string(), peer.port(), frame.error().detail);
    co_return;
  }
  exchange->StopClock();
  std::list<std::unique_ptr<Request>>& requests = state->requests;
  requests.push_back(
      std::make_unique<Request>(state->provider, std::move(exchange), std::move(peer), *std::move(frame)));
  // From now on a dropped peer is rejected.
  on_dropped = [&requests, at = std::prev(requests.end())] { requests.erase(at); };
  place->set_on_dropped(std::move(on_dropped));
  requests.back()->set_place(std::move(place));
  if (auto* waiting = std::exchange(state->waiting, nullptr)) waiting->Set();
}

// Returns true if a descriptor is free for another peer. If descriptors are short, a pending peer loses its connection.
bool HasDescriptor(ListenerState& state) {
  const auto may_accept = [&state] { return state.shortage->MayAccept(state.acceptor.native_handle(), "RDMA"); };
  return may_accept() || (state.pending.DropOne() && may_accept());
}

// Accepts a peer if one has connected. Returns false if the caller should try again later.
bool AcceptOne(const std::shared_ptr<ListenerState>& state) {
  if (!state->turn->HasTurn()) return true;
  if (!HasDescriptor(*state)) return false;
  tcp::socket socket(state->provider->loop.context());
  Address peer;
  asio::error_code error;
  state->acceptor.accept(socket, peer, error);
  if (error == asio::error::would_block || error == asio::error::try_again) return true;
  if (error == asio::error::connection_aborted || error == asio::error::interrupted) return true;
  if (error) {
    state->shortage->Tell("RDMA");
    return false;
  }
  state->turn->EndTurn();
  CloseOnExec(socket.native_handle());
  socket.set_option(tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  socket.native_non_blocking(true, error);
  auto exchange =
      std::make_unique<Exchange>(state->provider, std::move(socket), state->provider->options.request_timeout);
  Spawn(Greet(state, std::move(exchange), std::move(peer)));
  return true;
}

// Waits for the next peer and accepts it. Each turn of the loop accepts only one peer, so that other connections get
// their turns.
void AcceptMore(const std::shared_ptr<ListenerState>& state) {
  if (state->closed || state->accepting || !state->turn->HasTurn()) return;
  state->accepting = true;
  state->acceptor.async_wait(tcp::acceptor::wait_read, [state](const asio::error_code& error) {
    state->accepting = false;
    if (state->closed || error == asio::error::operation_aborted) return;
    if (AcceptOne(state)) return AcceptMore(state);
    if (!state->pause) {
      state->pause = state->provider->loop.MakeTimer([weak = std::weak_ptr(state)] {
        if (auto live = weak.lock()) AcceptMore(live);
      });
    }
    state->pause->ExpireAfter(kAcceptPause);
  });
}

class SocketListener : public Listener {
 public:
  explicit SocketListener(std::shared_ptr<ListenerState> state) : state_(std::move(state)) { AcceptMore(state_); }
  ~SocketListener() override { Close(); }

  Address local() const override { return state_->local; }

  Task<std::unique_ptr<ConnectionRequest>> Next() override {
    std::shared_ptr<ListenerState> state = state_;  // the listener may be destroyed during the wait
    while (!state->closed && state->requests.empty()) {
      OneShot<std::monostate> arrived;
      state->waiting = &arrived;
      co_await arrived;
    }
    if (state->closed) co_return nullptr;
    std::unique_ptr<Request> request = std::move(state->requests.front());
    state->requests.pop_front();
    request->set_place(nullptr);
    co_return request;
  }

  void Close() final {
    if (state_->closed) return;
    std::shared_ptr<ListenerState> state = state_;
    state->closed = true;
    state->turn.reset();
    state->pause.reset();
    asio::error_code ignored;
    state->acceptor.close(ignored);
    while (state->pending.DropOne()) {
    }
    if (auto* waiting = std::exchange(state->waiting, nullptr)) waiting->Set();
  }

  SetupResult<std::unique_ptr<Listener>> Share(rdma::Provider& other) override {
    auto* provider = dynamic_cast<Provider*>(&other);
    if (!provider)
      return std::unexpected(SetupError{"an iWARP listener cannot be shared with another kind of provider"});
    if (state_->closed) return std::unexpected(SetupError{"the listener is closed"});
    return provider->Adopt(state_->acceptor.native_handle(), state_->turns);
  }

 private:
  std::shared_ptr<ListenerState> state_;
};

}  // namespace

std::unique_ptr<Listener> MakeListener(std::shared_ptr<ProviderState> state, tcp::acceptor acceptor,
                                       std::shared_ptr<AcceptTurns> turns) {
  auto listener = std::make_shared<ListenerState>(std::move(state), std::move(acceptor));
  asio::error_code ignored;
  listener->local = listener->acceptor.local_endpoint(ignored);
  listener->acceptor.non_blocking(true, ignored);
  listener->turns = std::move(turns);
  listener->turn = listener->turns->Join(listener->provider->loop, [weak = std::weak_ptr(listener)] {
    if (const auto live = weak.lock()) AcceptMore(live);
  });
  return std::make_unique<SocketListener>(std::move(listener));
}

}  // namespace penstock::rdma::iwarp
