#include "base/host_shares.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

IpAddress At(const std::string& address) { return asio::ip::make_address(address); }

TEST(HostShares, OneHostLeavesRoomForTheNext) {
  HostShares shares({.all = 64, .per_host = 64});
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(shares.Take(At("192.0.2.1")));
  EXPECT_FALSE(shares.HasRoom(At("192.0.2.1")));
  EXPECT_FALSE(shares.Take(At("192.0.2.1")));
  EXPECT_TRUE(shares.Take(At("192.0.2.2")));
  shares.Return(At("192.0.2.1"));
  EXPECT_EQ(shares.count(), 16u);
}

TEST(HostShares, NoHostHasMoreThanItsLimit) {
  HostShares shares({.all = 64, .per_host = 2});
  EXPECT_TRUE(shares.Take(At("192.0.2.1")));
  EXPECT_TRUE(shares.Take(At("192.0.2.1")));
  EXPECT_FALSE(shares.Take(At("192.0.2.1")));
  shares.Return(At("192.0.2.1"));
  EXPECT_TRUE(shares.Take(At("192.0.2.1")));
}

TEST(HostShares, AnIpv6NetworkOf64BitsIsOneHost) {
  HostShares shares({.all = 64, .per_host = 1});
  EXPECT_TRUE(shares.Take(At("2001:db8::1")));
  EXPECT_FALSE(shares.Take(At("2001:db8::2")));
  EXPECT_TRUE(shares.Take(At("2001:db8:0:1::2")));
}

TEST(HostShares, AllHostsTogetherHaveALimit) {
  HostShares shares({.all = 8, .per_host = 8});
  for (int i = 1; i <= 8; ++i) EXPECT_TRUE(shares.Take(At("192.0.2." + std::to_string(i))));
  EXPECT_FALSE(shares.Take(At("192.0.2.9")));
}

}  // namespace
}  // namespace penstock
