#include "base/host.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

IpAddress Address(const char* text) { return asio::ip::make_address(text); }

TEST(HostTest, MappedIpv4AddressIsTheSameHost) {
  EXPECT_EQ(Unmapped(Address("::ffff:192.0.2.1")), Address("192.0.2.1"));
  EXPECT_EQ(HostOf(Address("::ffff:192.0.2.1")), HostOf(Address("192.0.2.1")));
  EXPECT_NE(HostOf(Address("192.0.2.1")), HostOf(Address("192.0.2.2")));
}

TEST(HostTest, Ipv6AddressesOfOneSlash64AreOneHost) {
  EXPECT_EQ(HostOf(Address("2001:db8:1:2::1")), HostOf(Address("2001:db8:1:2:3:4:5:6")));
  EXPECT_NE(HostOf(Address("2001:db8:1:2::1")), HostOf(Address("2001:db8:1:3::1")));
}

TEST(HostTest, LoopbackDiffersFromOtherHosts) { EXPECT_NE(HostOf(Address("::1")), HostOf(Address("127.0.0.1"))); }

}  // namespace
}  // namespace penstock
