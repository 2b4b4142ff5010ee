// Connecting a TCP socket, from a reserved port where that is wanted.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <system_error>

#include "base/address.h"
#include "base/local_port.h"
#include "base/task.h"

namespace penstock {

// Opens `socket`, which is closed, and connects it. With LocalPort::kReserved from a reserved port where this process may
// bind to one that is free, and from any other otherwise. Ends with asio::error::operation_aborted when the socket is
// closed meanwhile; it must live until then.
Task<std::error_code> ConnectTcp(asio::ip::tcp::socket& socket, SocketAddress server, LocalPort from);

}  // namespace penstock
