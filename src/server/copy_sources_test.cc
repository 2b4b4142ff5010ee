#include "server/copy_sources.h"

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>

namespace penstock::server {
namespace {

using asio::ip::make_address;

SocketAddress Place(const char* address, uint16_t port) { return {make_address(address), port}; }

// Where another server finds this one, for a client that has reached it at `local`.
SocketAddress AddressFor(std::vector<SocketAddress> tcp, const SocketAddress& local) {
  const NetworkCopySources sources({}, std::move(tcp));
  rpc::Peer peer;
  peer.local = local;
  return sources.AddressFor(peer);
}

TEST(NetworkCopySources, NamesThePortForTcpAtTheAddressOfTheClient) {
  const std::vector<SocketAddress> tcp{Place("192.0.2.1", 1), Place("192.0.2.2", 2), Place("::", 3)};
  EXPECT_EQ(AddressFor(tcp, Place("192.0.2.2", 20049)), Place("192.0.2.2", 2));
  EXPECT_EQ(AddressFor(tcp, Place("::ffff:192.0.2.2", 20049)), Place("192.0.2.2", 2));
  EXPECT_EQ(AddressFor(tcp, Place("2001:db8::1", 20049)), Place("2001:db8::1", 3));
}

TEST(NetworkCopySources, NamesAnotherAddressIfThatOfTheClientHasNoTcp) {
  EXPECT_EQ(AddressFor({Place("192.0.2.1", 1), Place("192.0.2.2", 2)}, Place("192.0.2.3", 20049)),
            Place("192.0.2.1", 1));
}

}  // namespace
}  // namespace penstock::server
