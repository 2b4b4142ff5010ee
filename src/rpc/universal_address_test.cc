#include "rpc/universal_address.h"

#include <gtest/gtest.h>

namespace penstock::rpc {
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
  EXPECT_EQ(ParseUniversalAddress("sctp", "192.0.2.1.8.1"), std::nullopt);
  EXPECT_EQ(ParseUniversalAddress("", "192.0.2.1.8.1"), std::nullopt);
}

TEST(UniversalAddress, EachNetworkHasAnIdentifier) {
  for (const char* name : {"tcp", "udp", "rdma"}) {
    const std::string six = std::string(name) + "6";
    const auto netid = ParseNetid(name);
    const auto netid6 = ParseNetid(six);
    ASSERT_TRUE(netid && netid6) << name;
    EXPECT_FALSE(netid->v6);
    EXPECT_TRUE(netid6->v6);
    EXPECT_EQ(netid->transport, netid6->transport);
    EXPECT_EQ(ToString(*netid), name);
    EXPECT_EQ(ToString(*netid6), six);
    EXPECT_EQ(ParseUniversalAddress(name, "192.0.2.1.78.81"), SocketAddress(make_address("192.0.2.1"), 20049));
    EXPECT_EQ(ParseUniversalAddress(six, "::.78.81"), SocketAddress(make_address("::"), 20049));
  }
  for (const char* unknown : {"", "TCP", "tcp66", "local", "rdma4"}) EXPECT_FALSE(ParseNetid(unknown)) << unknown;
}

TEST(UniversalAddress, PrintsWhatItParses) {
  EXPECT_EQ(UniversalAddress({make_address("0.0.0.0"), 2049}), "0.0.0.0.8.1");
  EXPECT_EQ(UniversalAddress({make_address("::"), 111}), "::.0.111");
  const SocketAddress address(make_address("2001:db8::1"), 65535);
  EXPECT_EQ(ParseUniversalAddress("tcp6", UniversalAddress(address)), address);
}

}  // namespace
}  // namespace penstock::rpc
