#include "rpc/udp/channel.h"

#include <gmock/gmock.h>

#include "rpc/udp/udp_test.h"

namespace penstock::rpc::udp {
namespace {

using rpc::testing::Echo;
using rpc::testing::Null;
using UdpChannelTest = UdpTest;

// A server that the test plays itself.
class FakeServer {
 public:
  FakeServer() : listener_(*Listener::Open({make_address("127.0.0.1"), 0})) {}
  uint16_t port() const { return listener_.local().port(); }

  // Takes the next call if one has arrived, and returns its XID.
  std::optional<uint32_t> Take() {
    std::byte room[1024];
    const Received received = listener_.Receive(room, route_);
    if (received.kind != Received::Kind::kDatagram) return std::nullopt;
    return LoadBig<uint32_t>(room);
  }
  void Reply(std::string_view octets) { listener_.Reply(Message::Whole(Slice::Borrowed(AsBytes(octets))), route_); }
  const SocketAddress& caller() const { return route_.from; }

 private:
  Listener listener_;
  Route route_;
};

TEST_F(UdpChannelTest, TheChannelSendsACallAgain) {
  FakeServer fake;
  port = fake.port();
  OpenChannel("127.0.0.1", {.first_pause = 1ms, .longest_pause = 4ms, .call_limit = kTestPatience});
  Outcome<Null> outcome;
  Start<Null>({}, outcome);
  for (int i = 0; i < 5; ++i) {
    TurnUntil([&] { return fake.Take() == 1000u; });
    EXPECT_FALSE(outcome);
  }
  fake.Reply(ReplyOf(1000));
  TurnUntil([&] { return outcome.has_value(); });
  EXPECT_TRUE(*outcome);
  // A second reply has no call. The next call works all the same.
  fake.Reply(ReplyOf(1000));
  Outcome<Null> next;
  Start<Null>({}, next);
  TurnUntil([&] { return fake.Take() == 1001u; });
  EXPECT_FALSE(next);
  fake.Reply(ReplyOf(1001));
  TurnUntil([&] { return next.has_value(); });
  EXPECT_TRUE(*next);
}

TEST_F(UdpChannelTest, TheChannelIgnoresStrangeDatagrams) {
  FakeServer fake;
  port = fake.port();
  OpenChannel();
  Outcome<Null> outcome;
  Start<Null>({}, outcome);
  TurnUntil([&] { return fake.Take().has_value(); });
  fake.Reply("");
  fake.Reply("abc");
  fake.Reply(ReplyOf(1001));    // the reply to another call
  fake.Reply(CallOf(1000, 0));  // a call with the XID
  const SocketAddress client_address = fake.caller();
  FakeServer other;  // another sender with the right XID
  const FileDescriptor fd(::socket(AF_INET, SOCK_DGRAM, 0));
  const std::string forged = ReplyOf(1000);
  ::sendto(fd.get(), forged.data(), forged.size(), 0, client_address.data(),
           static_cast<socklen_t>(client_address.size()));
  TurnFor(loop, 5ms);
  EXPECT_FALSE(outcome);
  fake.Reply(ReplyOf(1000));
  TurnUntil([&] { return outcome.has_value(); });
  EXPECT_TRUE(*outcome);
}

TEST_F(UdpChannelTest, ACallWithoutAReplyTimesOut) {
  FakeServer fake;
  port = fake.port();
  OpenChannel("127.0.0.1", {.first_pause = 1ms, .call_limit = 10ms});
  const auto outcome = Call<Null>();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().transport, CallError::kTimedOut);
}

TEST_F(UdpChannelTest, ACallToAClosedPortFailsAtOnce) {
  port = FakeServer().port();
  OpenChannel();
  const auto outcome = Call<Null>();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().transport, CallError::kDisconnected);
}

TEST_F(UdpChannelTest, ClosingTheChannelEndsItsCalls) {
  FakeServer fake;
  port = fake.port();
  OpenChannel();
  Outcome<Null> first;
  Outcome<Null> second;
  Start<Null>({}, first);
  Start<Null>({}, second);
  channel->Close();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->error().transport, CallError::kDisconnected);
  EXPECT_EQ(second->error().transport, CallError::kDisconnected);
  EXPECT_EQ(Call<Null>().error().transport, CallError::kDisconnected);
}

TEST_F(UdpChannelTest, TheChannelBoundsItsCalls) {
  FakeServer fake;
  port = fake.port();
  OpenChannel("127.0.0.1", {.first_pause = 30s, .call_limit = 40s, .max_message = 512, .max_calls = 2});
  Outcome<Null> first;
  Outcome<Null> second;
  Start<Null>({}, first);
  Start<Null>({}, second);
  EXPECT_EQ(Call<Null>().error().transport, CallError::kTooLarge);
  channel->Close();
  OpenChannel("127.0.0.1", {.max_message = 512});
  EXPECT_EQ(Call<Echo>(std::string(600, 'x')).error().transport, CallError::kTooLarge);
}

TEST_F(UdpChannelTest, TheChannelCallsFromAReservedPortIfItMay) {
  FakeServer fake;
  port = fake.port();
  OpenChannel("127.0.0.1", {.first_pause = 30s, .local_port = LocalPort::kReserved});
  Outcome<Null> outcome;
  Start<Null>({}, outcome);
  TurnUntil([&] { return fake.Take().has_value(); });
  if (::geteuid() == 0) {
    EXPECT_LT(fake.caller().port(), kFirstUnreservedPort);
    EXPECT_GE(fake.caller().port(), 600);
  }
  fake.Reply(ReplyOf(1000));
  TurnUntil([&] { return outcome.has_value(); });
  EXPECT_TRUE(*outcome);
}

}  // namespace
}  // namespace penstock::rpc::udp
