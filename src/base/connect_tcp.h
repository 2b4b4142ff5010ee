// Connects a TCP socket, from a reserved port on request.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <system_error>

#include "base/address.h"
#include "base/local_port.h"
#include "base/task.h"

namespace penstock {

// Keeps a socket, which Asio has accepted or opened, from programs that this process executes.
void CloseOnExec(int socket);

// Opens the closed `socket` and connects it to `server`. LocalPort::kReserved uses a free reserved port if this process
// may bind to one, and any other port otherwise. Returns asio::error::operation_aborted if the socket is closed
// meanwhile. The socket must live until this returns. Programs that this process executes do not inherit it.
Task<std::error_code> ConnectTcp(asio::ip::tcp::socket& socket, SocketAddress server, LocalSide from);

}  // namespace penstock
