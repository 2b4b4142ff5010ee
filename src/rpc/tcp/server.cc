#include "rpc/tcp/server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "base/descriptor_shortage.h"
#include "base/log.h"
#include "base/result.h"
#include "rpc/tcp/awaiters.h"
#include "rpc/tcp/served_connection.h"

namespace penstock::rpc::tcp {
namespace {

// The number of sweeps within the stall limit.
constexpr int kSweepsPerLimit = 4;
// The connections that a sweep looks at before others get their turn.
constexpr size_t kSweptAtOnce = 64;
// The pause before the next accept after a lack of file descriptors.
constexpr Duration kAcceptPause = std::chrono::milliseconds(200);

std::unexpected<SetupError> Failure(const SocketAddress& endpoint, int error) {
  std::string message = fmt::format("cannot listen on {} port {}: {}", endpoint.address().to_string(), endpoint.port(),
                                    DescribeErrno(error));
  if (error == EADDRINUSE) message += "; is another server running there?";
  if (error == EACCES) message += "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
  return std::unexpected(SetupError{std::move(message), error});
}

}  // namespace

SetupResult<Listener> Listener::Open(const SocketAddress& endpoint, bool only_ipv6) {
  FileDescriptor fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Failure(endpoint, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (only_ipv6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) {
    return Failure(endpoint, errno);
  }
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    return Failure(endpoint, errno);
  }
  return Listener(std::move(fd));
}

SocketAddress Listener::local() const {
  SocketAddress endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  const int result = ::getsockname(fd(), endpoint.data(), &size);
  assert(result == 0);
  (void)result;
  endpoint.resize(size);
  return endpoint;
}

Server::Server(Loop& loop, CallHandler& handler, ServerOptions options)
    : loop_(loop),
      handler_(handler),
      options_(Complete(std::move(options))),
      handshakes_(loop),
      acceptor_(loop.context()),
      sweep_(loop.MakeTimer([this] { Sweep(); })),
      accept_again_(loop.MakeTimer([this] { accept_signal_.Notify(); })),
      shortage_(options_.shortage ? options_.shortage : std::make_shared<DescriptorShortage>()) {}

ServerOptions Server::Complete(ServerOptions options) {
  if (!options.connections) options.connections = std::make_shared<ConnectionTable>();
  if (!options.memory) options.memory = std::make_shared<MemoryBudget>();
  return options;
}

Server::~Server() { assert(!accepting_ && connections_.empty()); }

SetupResult<void> Server::Start(const Listener& listener) {
  const int duplicate = ::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0);
  const auto endpoint = listener.local();
  if (duplicate < 0) return Failure(endpoint, errno);
  asio::error_code error;
  acceptor_.assign(endpoint.protocol(), duplicate, error);
  if (error) {
    ::close(duplicate);
    return Failure(endpoint, error.value());
  }
  turn_ = listener.turns_->Join(loop_, [this] { accept_signal_.Notify(); });
  accepting_ = true;
  Spawn(Accept());
  return {};
}

Task<void> Server::Accept() {
  while (!stopping_) {
    if (!turn_->HasTurn()) {
      co_await accept_signal_;
      continue;
    }
    if (!shortage_->MayAccept(acceptor_.native_handle(), "TCP")) {
      accept_again_->ExpireAfter(kAcceptPause);
      co_await accept_signal_;
      continue;
    }
    AcceptOne next(acceptor_);
    Accepted accepted = co_await next;
    if (stopping_) break;
    const int error = accepted.error.value();
    if (!error) {
      turn_->EndTurn();
      Adopt(std::move(accepted.socket));
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      shortage_->Tell("TCP");
      accept_again_->ExpireAfter(kAcceptPause);
      co_await accept_signal_;
    }
  }
  accepting_ = false;
  changed_.Notify();
}

void Server::Adopt(asio::ip::tcp::socket socket) {
  Configure(socket);
  asio::error_code error;
  Peer peer;
  peer.transport = TransportKind::kTcp;
  peer.address = socket.remote_endpoint(error);
  if (error) return;  // the client has already disconnected
  peer.local = socket.local_endpoint(error);
  peer.connection = NewConnectionNumber();
  peer.buffers = &loop_.buffers();
  peer.loop = &loop_;
  if (options_.allow && !options_.allow(peer.address.address())) {
    options_.recorder.Refuse(metrics::Transport::kTcp, metrics::ConnectionRefusal::kNotAllowed);
    log::info("refused a connection from {}: not allowed", peer.address.address().to_string());
    return;
  }
  // TCP cannot tell the client the reason for a refusal, so the socket is only closed.
  auto [place, refusal] = options_.connections->Admit(peer.address.address(), loop_.Now());
  if (!place) {
    options_.recorder.Refuse(metrics::Transport::kTcp, CountedAs(refusal));
    return;
  }
  peer.counts = options_.recorder.Connect(metrics::Transport::kTcp, peer.address.address());
  if (connections_.empty()) sweep_->ExpireAfter(options_.stall_limit / kSweepsPerLimit);
  Spawn(RunConnection(std::make_unique<ServedConnection>(loop_, handler_, options_, handshakes_, std::move(socket),
                                                         std::move(peer), std::move(place))));
}

Task<void> Server::RunConnection(std::unique_ptr<ServedConnection> connection) {
  connections_.push_back(connection.get());
  co_await connection->Run();
  const auto at = std::ranges::find(connections_, connection.get());
  if (static_cast<size_t>(at - connections_.begin()) < swept_) --swept_;
  connections_.erase(at);
  connection.reset();
  changed_.Notify();
}

void Server::Sweep() {
  for (size_t i = 0; i < kSweptAtOnce && swept_ < connections_.size(); ++i) {
    ServedConnection* const connection = connections_[swept_++];
    // Close() may destroy this connection, but no other one.
    if (connection->StalledIntervals() < kSweepsPerLimit) continue;
    log::info("closed the connection of {}: {}", connection->peer().address.address().to_string(),
              connection->handshaking() ? "its TLS handshake took too long" : "it stalled in the middle of a message");
    connection->SetEnd(metrics::ConnectionEnd::kStalled);
    connection->Close();
  }
  if (swept_ < connections_.size()) return sweep_->ExpireAfter(Duration::zero());
  swept_ = 0;
  if (!connections_.empty()) sweep_->ExpireAfter(options_.stall_limit / kSweepsPerLimit);
}

Task<void> Server::Stop(Duration drain_limit) {
  stopping_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  turn_.reset();
  accept_again_->Cancel();
  accept_signal_.Notify();
  for (ServedConnection* connection : std::vector<ServedConnection*>(connections_)) connection->Drain();
  auto limit = loop_.MakeTimer([this] {
    for (ServedConnection* connection : std::vector<ServedConnection*>(connections_)) connection->Close();
  });
  limit->ExpireAfter(drain_limit);
  while (accepting_ || !connections_.empty()) co_await changed_;
  sweep_->Cancel();
}

}  // namespace penstock::rpc::tcp
