// Addresses of hosts and sockets. They are Asio's types, so that socket code can pass them on unchanged. This header
// does not include Asio's sockets, so it is cheap to include.
#pragma once

#include <asio/ip/address.hpp>
#include <asio/ip/basic_endpoint.hpp>

namespace asio::ip {
class tcp;
}  // namespace asio::ip

namespace penstock {

// The address of a host, IPv4 or IPv6.
using IpAddress = asio::ip::address;
// An IpAddress and a port. protocol() needs <asio/ip/tcp.hpp>.
using SocketAddress = asio::ip::basic_endpoint<asio::ip::tcp>;

}  // namespace penstock
