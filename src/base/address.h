// Addresses of hosts and sockets. The types are Asio's, which socket code passes on as they are; this header includes
// none of Asio's sockets, so that everybody can afford it.
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
