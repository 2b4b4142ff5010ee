#include "base/connect_tcp.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/host.h"
#include "base/signal.h"

namespace penstock {
namespace {

using asio::ip::tcp;

Task<std::error_code> Connect(tcp::socket& socket, const SocketAddress& server) {
  OneShot<asio::error_code> connected;
  socket.async_connect(server, [&connected](const asio::error_code& error) { connected.Set(error); });
  co_return co_await connected;
}

// Asio's own open() makes sockets that a program which this process executes would inherit.
std::error_code Open(tcp::socket& socket, const tcp& protocol) {
  const int fd = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return {errno, std::system_category()};
  std::error_code error;
  socket.assign(protocol, fd, error);
  if (error) ::close(fd);
  return error;
}

bool IsTaken(const std::error_code& error) { return error.value() == EADDRINUSE || error.value() == EADDRNOTAVAIL; }

// The local end with this port. The address is that of the choice if it is of the server's version of IP.
tcp::endpoint LocalEnd(const LocalSide& from, const SocketAddress& server, uint16_t port) {
  const bool fits = !from.address.is_unspecified() && from.address.is_v4() == server.address().is_v4();
  return fits ? tcp::endpoint(from.address, port) : tcp::endpoint(server.protocol(), port);
}

// Returns an error for which IsTaken() is true if no reserved port is available at the address.
Task<std::error_code> ConnectFromReserved(tcp::socket& socket, const SocketAddress& server, const LocalSide& from) {
  // An earlier connection may have left a port in TIME_WAIT: bind() accepts it, but connect() to the same server does
  // not.
  const ReservedPorts ports;
  std::error_code error;
  for (unsigned i = 0; i < ReservedPorts::kCount; ++i) {
    error = Open(socket, server.protocol());
    if (error) co_return error;
    // A closed connection keeps its port for a minute. This allows it for connections to other servers.
    socket.set_option(tcp::socket::reuse_address(true), error);
    socket.bind(LocalEnd(from, server, ports[i]), error);
    const bool is_permitted = error.value() != EACCES && error.value() != EPERM;
    if (!error) {
      error = co_await Connect(socket, server);
      // The caller has closed it, although the connection had failed just before: no other port is tried.
      if (!socket.is_open()) co_return asio::error::operation_aborted;
    }
    if (is_permitted && !IsTaken(error)) co_return error;
    std::error_code ignored;
    socket.close(ignored);
    if (!is_permitted) break;
  }
  co_return std::make_error_code(std::errc::address_in_use);
}

}  // namespace

void CloseOnExec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

Task<std::error_code> ConnectTcp(tcp::socket& socket, SocketAddress server, LocalSide from) {
  std::error_code error;
  if (!IsAddressOfThisHost(from.address)) from.address = IpAddress();
  if (from.port == LocalPort::kReserved) {
    error = co_await ConnectFromReserved(socket, server, from);
    if (!IsTaken(error)) co_return error;
  }
  error = Open(socket, server.protocol());
  if (!error && !from.address.is_unspecified()) socket.bind(LocalEnd(from, server, 0), error);
  if (!error) error = co_await Connect(socket, server);
  co_return error;
}

}  // namespace penstock
