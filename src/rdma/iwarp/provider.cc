#include "rdma/iwarp/provider.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <stop_token>
#include <system_error>

#include "base/connect_tcp.h"
#include "base/result.h"
#include "rdma/iwarp/listener.h"
#include "rdma/iwarp/mpa_exchange.h"
#include "rdma/iwarp/mpa_startup.h"

namespace penstock::rdma::iwarp {
namespace {

using asio::ip::tcp;

// One attempt to connect. Sets `closed_unanswered` if the peer has closed without an MPA reply.
Task<ConnectResult> Attempt(std::shared_ptr<ProviderState> state, Address peer, MpaPreferences preferences,
                            ConnectOptions& options, TimePoint deadline, bool& closed_unanswered) {
  // TCP set-up has the shorter limit: an absent peer is noticed soon, and a present peer may take longer to answer.
  const Duration left = deadline - state->loop.Now();
  Exchange exchange(state, tcp::socket(state->loop.context()), std::min(state->options.connect_timeout, left));
  const std::stop_callback on_stop(options.stop, [&exchange] { exchange.Cancel(); });
  const auto connected = co_await exchange.Connect(peer, options.local_port);
  if (!connected) co_return std::unexpected(connected.error());
  exchange.SetClock(deadline - state->loop.Now());
  co_return co_await Initiate(state, exchange, preferences, options, closed_unanswered);
}

Task<ConnectResult> ConnectTo(std::shared_ptr<ProviderState> state, Address peer, ConnectOptions options) {
  MpaPreferences preferences = PreferencesOf(state->options, options);
  if (options.private_data.size() > MaxPrivateData(preferences.revision >= 2)) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, "too much private data", {}});
  }
  const TimePoint deadline = state->loop.Now() + options.time_limit;
  bool closed_unanswered = false;
  ConnectResult result = co_await Attempt(state, peer, preferences, options, deadline, closed_unanswered);
  if (result || !closed_unanswered || preferences.revision < 2 || !state->options.fall_back_to_revision_1) {
    co_return result;
  }
  // RFC 6581 §10: a peer without the enhancements takes the request for malformed and closes.
  if (state->loop.Now() >= deadline || options.stop.stop_requested()) co_return result;
  preferences.revision = 1;
  ConnectResult second = co_await Attempt(state, peer, preferences, options, deadline, closed_unanswered);
  co_return second;
}

SetupError CannotListen(const Address& local, const asio::error_code& error) {
  return {fmt::format("cannot listen on {}:{}: {}", local.address().to_string(), local.port(), error.message()),
          error.value()};
}

}  // namespace

Provider::Provider(Loop& loop, const Options& options) : state_(std::make_shared<ProviderState>(loop, options)) {}

Provider::~Provider() {
  state_->gone = true;
  const auto exchanges = state_->exchanges;
  for (Exchange* exchange : exchanges) exchange->Cancel();
}

BufferPool& Provider::buffers() { return state_->loop.buffers(); }

Task<ConnectResult> Provider::Connect(Address peer, ConnectOptions options) {
  return ConnectTo(state_, std::move(peer), std::move(options));
}

Task<ConnectResult> Provider::StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                                     ConnectOptions options) {
  return iwarp::StepUp(state_, std::move(socket), role, std::move(last_octets), std::move(options));
}

SetupResult<std::unique_ptr<Listener>> Provider::Listen(Address local) {
  tcp::acceptor acceptor(state_->loop.context());
  asio::error_code error;
  acceptor.open(local.protocol(), error);
  if (!error) CloseOnExec(acceptor.native_handle());
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(local, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return std::unexpected(CannotListen(local, error));
  return MakeListener(state_, std::move(acceptor), std::make_shared<AcceptTurns>());
}

SetupResult<std::unique_ptr<Listener>> Provider::Adopt(int listening_socket, std::shared_ptr<AcceptTurns> turns) {
  const int fd = ::dup(listening_socket);
  if (fd < 0) {
    return std::unexpected(SetupError{"cannot share a listener: " + DescribeErrno(errno)});
  }
  tcp::acceptor acceptor(state_->loop.context());
  asio::error_code error;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  acceptor.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
  if (error) {
    ::close(fd);
    return std::unexpected(SetupError{"cannot share a listener: " + error.message()});
  }
  return MakeListener(state_, std::move(acceptor), std::move(turns));
}

}  // namespace penstock::rdma::iwarp
