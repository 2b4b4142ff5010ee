#include "base/connect_tcp.h"

#include <cerrno>
#include <random>

#include "base/signal.h"

namespace penstock {
namespace {

using asio::ip::tcp;

// The ports that rresvport(3) draws from: those below belong to services.
constexpr uint16_t kFirst = 600;
constexpr uint16_t kCount = kFirstUnreservedPort - kFirst;

Task<std::error_code> Connect(tcp::socket& socket, const SocketAddress& server) {
  OneShot<asio::error_code> connected;
  socket.async_connect(server, [&connected](const asio::error_code& error) { connected.Set(error); });
  co_return co_await connected;
}

bool IsTaken(const std::error_code& error) { return error.value() == EADDRINUSE || error.value() == EADDRNOTAVAIL; }

// An error that IsTaken(): there is no such port for us.
Task<std::error_code> ConnectFromReserved(tcp::socket& socket, const SocketAddress& server) {
  // Not always the same first one: it may be left from an earlier connection in TIME_WAIT, where it can be bound to and not
  // used for the same server.
  const unsigned start = std::random_device()();
  std::error_code error;
  for (unsigned i = 0; i < kCount; ++i) {
    socket.open(server.protocol(), error);
    if (error) co_return error;
    // Connections that have ended keep their ports for a minute: to other servers they may be used all the same.
    socket.set_option(tcp::socket::reuse_address(true), error);
    socket.bind(tcp::endpoint(server.protocol(), static_cast<uint16_t>(kFirst + (start + i) % kCount)), error);
    const bool is_permitted = error.value() != EACCES && error.value() != EPERM;
    if (!error) error = co_await Connect(socket, server);
    if (is_permitted && !IsTaken(error)) co_return error;
    std::error_code ignored;
    socket.close(ignored);
    if (!is_permitted) break;
  }
  co_return std::make_error_code(std::errc::address_in_use);
}

}  // namespace

Task<std::error_code> ConnectTcp(tcp::socket& socket, SocketAddress server, LocalPort from) {
  std::error_code error;
  if (from == LocalPort::kReserved) {
    error = co_await ConnectFromReserved(socket, server);
    if (!IsTaken(error)) co_return error;
  }
  socket.open(server.protocol(), error);
  if (!error) error = co_await Connect(socket, server);
  co_return error;
}

}  // namespace penstock
