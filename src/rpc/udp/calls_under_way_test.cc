#include "rpc/udp/calls_under_way.h"

#include <gtest/gtest.h>

namespace penstock::rpc::udp {
namespace {

using asio::ip::make_address;
using Verdict = CallsUnderWay::Verdict;

SocketAddress From(const char* host, uint16_t port = 700) { return {make_address(host), port}; }

TEST(CallsUnderWay, RecognizesACallThatIsSentAgain) {
  CallsUnderWay calls({});
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(1)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(1)), Verdict::kDuplicate);
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(2)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.1", 701), Xid(1)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.2"), Xid(1)), Verdict::kStart);
  calls.End(From("192.0.2.1"), Xid(1));
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(1)), Verdict::kStart);
}

TEST(CallsUnderWay, OneHostHasALimit) {
  CallsUnderWay calls({.calls = 512, .per_host = 4});
  for (uint32_t xid = 0; xid < 4; ++xid) EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(xid)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(4)), Verdict::kTooMany);
  EXPECT_EQ(calls.Begin(From("192.0.2.2"), Xid(4)), Verdict::kStart);
  calls.End(From("192.0.2.1"), Xid(0));
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(4)), Verdict::kStart);
}

TEST(CallsUnderWay, AllAddressesOfAnIpv6NetworkOf64BitsAreOneHost) {
  CallsUnderWay calls({.calls = 512, .per_host = 2});
  EXPECT_EQ(calls.Begin(From("2001:db8::1"), Xid(1)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("2001:db8::2"), Xid(2)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("2001:db8::3"), Xid(3)), Verdict::kTooMany);
  EXPECT_EQ(calls.Begin(From("2001:db8:0:1::1"), Xid(4)), Verdict::kStart);
}

TEST(CallsUnderWay, FewHostsLeaveRoomForTheNext) {
  CallsUnderWay calls({.calls = 8, .per_host = 16});
  // One host alone gets two: a third would need six more that are free.
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(1)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(2)), Verdict::kStart);
  EXPECT_EQ(calls.Begin(From("192.0.2.1"), Xid(3)), Verdict::kTooMany);
  // A host without a call gets any place, up to the last.
  for (const char* host : {"192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7"}) {
    EXPECT_EQ(calls.Begin(From(host), Xid(1)), Verdict::kStart) << host;
  }
  EXPECT_EQ(calls.size(), 8u);
  EXPECT_EQ(calls.Begin(From("192.0.2.8"), Xid(1)), Verdict::kTooMany);
}

}  // namespace
}  // namespace penstock::rpc::udp
