// Tests the server and the channel over the loopback interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/udp.hpp>
#include <functional>
#include <optional>

#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/test_program.h"
#include "rpc/udp/channel.h"
#include "rpc/udp/server.h"

namespace penstock::rpc::udp {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;
using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Null;
using rpc::testing::SlowAdd;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Runs a server and its clients on one loop.
class UdpTest : public ::testing::Test {
 protected:
  UdpTest() { dispatcher.Add(program); }
  ~UdpTest() override {
    channel.reset();
    program.Release();
    StopServer();
    TurnUntil([this] { return loop.buffers().outstanding() == cache.entries(); });
    TurnFor(loop, 0ms);  // closed channels end
  }

  void StartServer(ServerOptions options = {}, const char* listen = "127.0.0.1") {
    SetupResult<Listener> listener = Listener::Open({make_address(listen), 0});
    ASSERT_TRUE(listener) << listener.error().message;
    port = listener->local().port();
    server.emplace(loop, dispatcher, options);
    ASSERT_TRUE(server->Start(*std::move(listener)));
  }
  void StopServer() {
    if (!server) return;
    bool stopped = false;
    BeginStop(stopped);
    TurnUntil([&] { return stopped; });
    server.reset();
  }
  void BeginStop(bool& stopped) {
    Spawn([](Server& stopping, bool& done) -> Task<void> {
      co_await stopping.Stop();
      done = true;
    }(*server, stopped));
  }
  void TurnUntil(const std::function<bool()>& done) { EXPECT_TRUE(penstock::TurnUntil(loop, done)); }

  void OpenChannel(const char* host = "127.0.0.1", ChannelOptions options = {.first_pause = 30s, .call_limit = 40s}) {
    auto opened = Channel::Open(loop, {make_address(host), port}, options);
    ASSERT_TRUE(opened) << opened.error().message();
    channel = *std::move(opened);
    client.emplace(*channel, loop.buffers(), Xid(1000));
  }
  template <class Procedure>
  using Outcome = std::optional<Result<Reply<typename Procedure::Results>, Error>>;
  template <class Procedure>
  void Start(typename Procedure::Arguments arguments, Outcome<Procedure>& out) {
    Spawn([](Client& caller, typename Procedure::Arguments with, auto& result) -> Task<void> {
      result.emplace(co_await caller.Call<Procedure>(with));
    }(*client, arguments, out));
  }
  template <class Procedure>
  Result<Reply<typename Procedure::Results>, Error> Call(typename Procedure::Arguments arguments = {}) {
    Outcome<Procedure> out;
    Start<Procedure>(arguments, out);
    TurnUntil([&] { return out.has_value(); });
    return std::move(*out);
  }

  // A socket of a client that the test plays itself.
  FileDescriptor RawSocket(const char* from = "127.0.0.1") {
    FileDescriptor fd(::socket(AF_INET, SOCK_DGRAM, 0));
    const SocketAddress local(make_address(from), 0);
    EXPECT_EQ(::bind(fd.get(), local.data(), static_cast<socklen_t>(local.size())), 0);
    const SocketAddress peer(make_address("127.0.0.1"), port);
    EXPECT_EQ(::connect(fd.get(), peer.data(), static_cast<socklen_t>(peer.size())), 0);
    return fd;
  }
  static void Write(const FileDescriptor& fd, std::string_view octets) {
    EXPECT_EQ(::send(fd.get(), octets.data(), octets.size(), 0), static_cast<ssize_t>(octets.size()));
  }
  // Returns the datagrams that have arrived.
  static std::vector<std::string> Read(const FileDescriptor& fd) {
    std::vector<std::string> all;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT)) >= 0;) {
      all.emplace_back(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  std::vector<std::string> ReadUntil(const FileDescriptor& fd, size_t count) {
    std::vector<std::string> all;
    TurnUntil([&] {
      for (std::string& each : Read(fd)) all.push_back(std::move(each));
      return all.size() >= count;
    });
    return all;
  }
  static std::string Words(std::initializer_list<uint32_t> words) {
    std::string bytes;
    for (const uint32_t word : words) {
      std::byte big[4];
      StoreBig(big, word);
      bytes += AsText(big);
    }
    return bytes;
  }
  static std::string CallOf(uint32_t xid, uint32_t procedure) {
    return Words({xid, 0, 2, rpc::testing::kTestProgram, 3, procedure, 0, 0, 0, 0});
  }
  static std::string AddCall(uint32_t xid, uint32_t number) { return CallOf(xid, Add::kNumber) + Words({number}); }
  static std::string SlowAddCall(uint32_t xid, uint32_t number) {
    return CallOf(xid, SlowAdd::kNumber) + Words({number});
  }
  static std::string ReplyOf(uint32_t xid) { return Words({xid, 1, 0, 0, 0, 0}); }

  Loop loop;
  ReplyCache cache;
  rpc::testing::TestProgram program;
  Dispatcher dispatcher{cache, loop};
  uint16_t port = 0;
  std::optional<Server> server;
  std::unique_ptr<Channel> channel;
  std::optional<Client> client;
};

// ---- the server ----

TEST_F(UdpTest, AnswersCalls) {
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

TEST_F(UdpTest, RepliesFromTheAddressThatWasAsked) {
  StartServer({}, "0.0.0.0");
  // The channel's socket is connected, so that it receives nothing from another address.
  for (const char* host : {"127.0.0.1", "127.0.0.2", "127.0.0.77"}) {
    OpenChannel(host);
    EXPECT_TRUE(Call<Null>()) << host;
    EXPECT_EQ(program.last.flavor, AuthFlavor::AUTH_NONE);
  }
}

TEST_F(UdpTest, ServesBothVersionsOfIpAtTheUnspecifiedAddress) {
  StartServer({}, "::");
  for (const char* host : {"::1", "127.0.0.1", "127.0.0.2"}) {
    OpenChannel(host);
    EXPECT_TRUE(Call<Null>()) << host;
  }
}

TEST_F(UdpTest, TellsTheProgramWhoCallsAndWhere) {
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

TEST_F(UdpTest, DropsWhatIsNoCall) {
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

TEST_F(UdpTest, ADuplicateOfARunningCallGetsNoSecondReply) {
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

TEST_F(UdpTest, ALaterDuplicateGetsTheKeptReply) {
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

TEST_F(UdpTest, AReplyThatIsTooLongBecomesAnError) {
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

TEST_F(UdpTest, AReplyMayBeAsLongAsItsCall) {
  StartServer({.max_reply = 600});
  OpenChannel();
  const std::string text(4000, 'x');
  const auto echo = Call<Echo>(text);
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, text);
}

TEST_F(UdpTest, DoesNotMultiplyTheTrafficOfAForgedSender) {
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

TEST_F(UdpTest, AFloodOfOneHostLeavesCallsForOthers) {
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

TEST_F(UdpTest, StopWaitsForRunningCallsAndSendsTheirReplies) {
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

TEST_F(UdpTest, RejectsAPortThatIsTaken) {
  StartServer();
  const auto second = Listener::Open({make_address("127.0.0.1"), port});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1 port " + std::to_string(port) +
                                        " with UDP: Address already in use; is another server running there?");
}

// ---- the channel ----

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

TEST_F(UdpTest, TheChannelSendsACallAgain) {
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

TEST_F(UdpTest, TheChannelIgnoresStrangeDatagrams) {
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

TEST_F(UdpTest, ACallWithoutAReplyTimesOut) {
  FakeServer fake;
  port = fake.port();
  OpenChannel("127.0.0.1", {.first_pause = 1ms, .call_limit = 10ms});
  const auto outcome = Call<Null>();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().transport, CallError::kTimedOut);
}

TEST_F(UdpTest, ACallToAClosedPortFailsAtOnce) {
  port = FakeServer().port();
  OpenChannel();
  const auto outcome = Call<Null>();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().transport, CallError::kDisconnected);
}

TEST_F(UdpTest, ClosingTheChannelEndsItsCalls) {
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

TEST_F(UdpTest, TheChannelBoundsItsCalls) {
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

TEST_F(UdpTest, TheChannelCallsFromAReservedPortIfItMay) {
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
