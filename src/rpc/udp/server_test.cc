#include "rpc/udp/server.h"

#include <gmock/gmock.h>

#include "rpc/udp/udp_test.h"

namespace penstock::rpc::udp {
namespace {

using rpc::testing::Echo;
using rpc::testing::Null;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using UdpServerTest = UdpTest;

TEST_F(UdpServerTest, AnswersCalls) {
  StartServer();
  OpenChannel();
  EXPECT_TRUE(Call<Null>());
  const auto echo = Call<Echo>("hello");
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, "hello");
  const auto failed = Call<rpc::testing::Fail>();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Error::Kind::kSystemError);
}

TEST_F(UdpServerTest, RepliesFromTheAddressThatWasAsked) {
  StartServer({}, "0.0.0.0");
  // The channel's socket is connected, so that it receives nothing from another address.
  for (const char* host : {"127.0.0.1", "127.0.0.2", "127.0.0.77"}) {
    OpenChannel(host);
    EXPECT_TRUE(Call<Null>()) << host;
    EXPECT_EQ(program.last.flavor, AuthFlavor::AUTH_NONE);
  }
}

TEST_F(UdpServerTest, ServesBothVersionsOfIpAtTheUnspecifiedAddress) {
  StartServer({}, "::");
  for (const char* host : {"::1", "127.0.0.1", "127.0.0.2"}) {
    OpenChannel(host);
    EXPECT_TRUE(Call<Null>()) << host;
  }
}

TEST_F(UdpServerTest, TellsTheProgramWhoCallsAndWhere) {
  struct Observer : CallHandler {
    Task<Message> HandleCall(Message /*call*/, const Peer& peer) override {
      transport = peer.transport;
      address = peer.address;
      local = peer.local;
      connection = peer.connection;
      co_return Message();
    }
    std::optional<TransportKind> transport;
    SocketAddress address, local;
    uint64_t connection = 1;
  } observer;
  auto listener = Listener::Open({make_address("0.0.0.0"), 0});
  ASSERT_TRUE(listener);
  port = listener->local().port();
  server.emplace(loop, observer);
  ASSERT_TRUE(server->Start(*std::move(listener)));
  const FileDescriptor fd = RawSocket("127.0.0.9");
  Write(fd, CallOf(1, 0));
  TurnUntil([&] { return observer.transport.has_value(); });
  EXPECT_EQ(observer.transport, TransportKind::kUdp);
  EXPECT_EQ(observer.address.address(), make_address("127.0.0.9"));
  EXPECT_EQ(observer.local, SocketAddress(make_address("127.0.0.1"), port));
  EXPECT_EQ(observer.connection, 0u);
  EXPECT_THAT(Read(fd), IsEmpty()) << "an empty reply is none";
}

TEST_F(UdpServerTest, DropsWhatIsNoCall) {
  StartServer({.max_call = 1024});
  const FileDescriptor fd = RawSocket();
  Write(fd, "");
  Write(fd, "x");
  Write(fd, Words({1}));
  Write(fd, ReplyOf(2));
  Write(fd, Words({3, 2, 2}));
  Write(fd, CallOf(4, Echo::kNumber) + Words({2000}) + std::string(2000, 'x'));
  Write(fd, CallOf(5, 0));
  EXPECT_THAT(ReadUntil(fd, 1), ElementsAre(ReplyOf(5)));
}

TEST_F(UdpServerTest, ADuplicateOfARunningCallGetsNoSecondReply) {
  StartServer();
  const FileDescriptor fd = RawSocket();
  Write(fd, SlowAddCall(7, 5));
  TurnUntil([&] { return program.waiting.size() == 1; });
  Write(fd, SlowAddCall(7, 5));
  Write(fd, CallOf(8, 0));
  EXPECT_THAT(ReadUntil(fd, 1), ElementsAre(ReplyOf(8)));
  program.Release();
  EXPECT_THAT(ReadUntil(fd, 1), ElementsAre(ReplyOf(7) + Words({5})));
  EXPECT_EQ(program.sum, 5u);
}

TEST_F(UdpServerTest, ALaterDuplicateGetsTheKeptReply) {
  StartServer();
  const FileDescriptor fd = RawSocket();
  Write(fd, AddCall(7, 5));
  EXPECT_THAT(ReadUntil(fd, 1), ElementsAre(ReplyOf(7) + Words({5})));
  // The source port does not matter: a client may send the call again over another socket.
  const FileDescriptor other = RawSocket();
  Write(other, AddCall(7, 5));
  EXPECT_THAT(ReadUntil(other, 1), ElementsAre(ReplyOf(7) + Words({5})));
  EXPECT_EQ(program.sum, 5u);
}

TEST_F(UdpServerTest, AReplyThatIsTooLongBecomesAnError) {
  StartServer({.max_reply = 600});
  program.data = Data(Slice::Borrowed(AsBytes("0123456789012345678901234567890123456789")));
  const FileDescriptor fd = RawSocket();
  const std::string text(572, 'x');
  program.data = Data(Slice::Borrowed(AsBytes(text)));
  const auto read = [&](uint32_t xid, uint32_t count) {
    Write(fd, CallOf(xid, rpc::testing::Read::kNumber) + Words({count}));
    return ReadUntil(fd, 1);
  };
  EXPECT_THAT(read(1, 572), ElementsAre(ReplyOf(1) + Words({572}) + text));
  const std::string longer(576, 'x');
  program.data = Data(Slice::Borrowed(AsBytes(longer)));
  EXPECT_THAT(read(2, 576), ElementsAre(Words({2, 1, 0, 0, 0, 5})));
}

TEST_F(UdpServerTest, AReplyMayBeAsLongAsItsCall) {
  StartServer({.max_reply = 600});
  OpenChannel();
  const std::string text(4000, 'x');
  const auto echo = Call<Echo>(text);
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, text);
}

TEST_F(UdpServerTest, DoesNotMultiplyTheTrafficOfAForgedSender) {
  StartServer({.replies = {.octets_per_second = 1, .burst = 1000}});
  const std::string text(500, 'x');
  program.data = Data(Slice::Borrowed(AsBytes(text)));
  const FileDescriptor fd = RawSocket();
  for (uint32_t xid = 1; xid < 20; ++xid) Write(fd, CallOf(xid, rpc::testing::Read::kNumber) + Words({500}));
  // Replies that are not longer than their calls are sent still.
  Write(fd, CallOf(20, 0));
  std::vector<std::string> all;
  TurnUntil([&] {
    for (std::string& each : Read(fd)) all.push_back(std::move(each));
    return !all.empty() && all.back() == ReplyOf(20);
  });
  EXPECT_EQ(all.size(), 3u) << "two long replies, and the short one";
  const FileDescriptor other = RawSocket("127.0.0.2");
  Write(other, CallOf(1, rpc::testing::Read::kNumber) + Words({500}));
  EXPECT_EQ(ReadUntil(other, 1)[0].size(), ReplyOf(1).size() + 504);
}

TEST_F(UdpServerTest, AFloodOfOneHostLeavesCallsForOthers) {
  StartServer({.calls = {.calls = 64, .per_host = 4}});
  const FileDescriptor flood = RawSocket();
  for (uint32_t xid = 0; xid < 50; ++xid) Write(flood, SlowAddCall(xid, 1));
  TurnUntil([&] { return program.waiting.size() == 4; });
  const FileDescriptor other = RawSocket("127.0.0.2");
  Write(other, AddCall(1, 0));
  EXPECT_EQ(ReadUntil(other, 1).size(), 1u);
  EXPECT_EQ(program.waiting.size(), 4u);
  EXPECT_EQ(server->calls(), 4u);
  program.Release();
  EXPECT_EQ(ReadUntil(flood, 4).size(), 4u);
  EXPECT_EQ(program.sum, 4u) << "the other calls were dropped";
}

TEST_F(UdpServerTest, StopWaitsForRunningCallsAndSendsTheirReplies) {
  StartServer();
  const FileDescriptor fd = RawSocket();
  Write(fd, SlowAddCall(1, 5));
  TurnUntil([&] { return program.waiting.size() == 1; });
  bool stopped = false;
  BeginStop(stopped);
  Write(fd, CallOf(2, 0));
  TurnFor(loop, 5ms);
  EXPECT_FALSE(stopped);
  program.Release();
  TurnUntil([&] { return stopped; });
  EXPECT_THAT(ReadUntil(fd, 1), ElementsAre(ReplyOf(1) + Words({5})));
}

TEST_F(UdpServerTest, RejectsAPortThatIsTaken) {
  StartServer();
  const auto second = Listener::Open({make_address("127.0.0.1"), port});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1 port " + std::to_string(port) +
                                        " with UDP: Address already in use; is another server running there?");
}

}  // namespace
}  // namespace penstock::rpc::udp
