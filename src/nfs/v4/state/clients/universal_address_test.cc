#include "nfs/v4/state/clients/universal_address.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

using asio::ip::make_address;

TEST(UniversalAddress, ParsesAddressAndPort) {
  EXPECT_EQ(ParseUniversalAddress("tcp", "192.0.2.1.8.1"), SocketAddress(make_address("192.0.2.1"), 2049));
  EXPECT_EQ(ParseUniversalAddress("tcp", "127.0.0.1.255.255"), SocketAddress(make_address("127.0.0.1"), 65535));
  EXPECT_EQ(ParseUniversalAddress("tcp6", "2001:db8::1.8.1"), SocketAddress(make_address("2001:db8::1"), 2049));
  EXPECT_EQ(ParseUniversalAddress("tcp6", "::1.0.111"), SocketAddress(make_address("::1"), 111));
}

TEST(UniversalAddress, RejectsMalformedText) {
  for (const char* address :
       {"", ".", "1", "8.1", "192.0.2.1", "192.0.2.1.8", "192.0.2.1.256.1", "192.0.2.1.8.-1", "192.0.2.1.8.",
        "192.0.2.1..1", "host.8.1", "192.0.2.1.8.1x", " 192.0.2.1.8.1", "::1.8.1"}) {
    EXPECT_EQ(ParseUniversalAddress("tcp", address), std::nullopt) << address;
  }
  EXPECT_EQ(ParseUniversalAddress("tcp6", "192.0.2.1.8.1"), std::nullopt);
  EXPECT_EQ(ParseUniversalAddress("udp", "192.0.2.1.8.1"), std::nullopt);
  EXPECT_EQ(ParseUniversalAddress("", "192.0.2.1.8.1"), std::nullopt);
}

}  // namespace
}  // namespace penstock::nfs::v4
