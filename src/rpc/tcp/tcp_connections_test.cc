// Tests of how TCP connections begin and end: the peers and the number of peers that a server accepts, and the events
// that end a connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/descriptor_shortage.h"
#include "base/failing_disk.h"
#include "base/local_port.h"
#include "base/signal.h"
#include "base/test_descriptors.h"
#include "rpc/call_order.h"
#include "rpc/connection_table.h"
#include "rpc/tcp/tcp_test.h"

namespace penstock::rpc::tcp {
namespace {

using testing::Echo;
using testing::SlowAdd;

// The reply's status of success may have left already. Only the end of the connection can revoke it.
TEST_F(TcpTest, AnUnreadableFileEndsTheConnection) {
  StartServer();
  const std::string bytes = Pattern(1'000'003);
  auto file = std::make_shared<FileDescriptor>(::memfd_create("test", 0));
  ASSERT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  program.data = Data(file, 0, bytes.size());
  FailingDisk disk;
  const std::string path = "/proc/self/fd/" + std::to_string(file->get());
  for (const uint64_t good : {0u, 500'000u}) {
    disk.Fail({.call = DiskCall::kSendFile, .path = path, .error = EIO, .from = good});
    disk.Fail({.call = DiskCall::kRead, .path = path, .error = EIO, .from = good});
    ConnectClient();
    const auto failed = Call<testing::Read>(1'000'003);
    ASSERT_FALSE(failed) << good;
    EXPECT_EQ(failed.error().transport, CallError::kDisconnected) << good;
    disk.Mend();
    ConnectClient();
    EXPECT_EQ(Call<testing::Read>(1'000'003)->results.text(), bytes) << "the disk works again";
  }
}

// RFC 7530 §3.1.1
TEST_F(TcpTest, ACallWithoutAReplyEndsTheConnection) {
  class Dropping final : public CallHandler {
    Task<Message> HandleCall(Message, const Peer&) override { co_return Message(); }
  } dropping;
  server = std::make_unique<Server>(loop, dropping, ServerOptions());
  ASSERT_TRUE(server->Start(*listener));
  ConnectClient();
  const auto reply = Call<testing::Null>();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().transport, CallError::kDisconnected);
  StopServer(1s);
}

// By then the connection is at its end: Run() waits for this call alone.
TEST_F(TcpTest, ACallWithoutAReplyMayEndAfterItsPeerHasClosedTheConnection) {
  class Dropping final : public CallHandler {
   public:
    Task<Message> HandleCall(Message, const Peer&) override {
      ++calls;
      co_await released;
      co_return Message();
    }
    size_t calls = 0;
    Signal released;
  } dropping;
  server = std::make_unique<Server>(loop, dropping);
  ASSERT_TRUE(server->Start(*listener));
  for (const bool peer_closes : {true, false}) {
    const FileDescriptor peer = RawConnection();
    Write(peer, Words({0x8000'0028}) + NullCall(1));
    TurnUntil([&] { return dropping.calls == (peer_closes ? 1u : 2u); });
    if (peer_closes) {
      ::shutdown(peer.get(), SHUT_WR);
      Turn();
    }
    dropping.released.Notify();
    EXPECT_TRUE(ClosedByServer(peer));
    TurnUntil([this] { return server->connections() == 0; });
  }
  StopServer(1s);
}

// The calls of a session of 2004 are judged in the order of their arrival.
TEST_F(TcpTest, ListsTheCallsOfABoundConnectionInTheirOrder) {
  class Binding final : public CallHandler {
   public:
    explicit Binding(CallHandler& inner) : inner_(inner) {}
    Task<Message> HandleCall(Message call, const Peer& peer) override {
      listed.push_back(peer.order->MayJudge(Xid(LoadBig<uint32_t>(call.stream.data()))));
      peer.back_channel->set_bound(true);
      return inner_.HandleCall(std::move(call), peer);
    }
    std::vector<bool> listed;

   private:
    CallHandler& inner_;
  } binding(dispatcher);
  server = std::make_unique<Server>(loop, binding);
  ASSERT_TRUE(server->Start(*listener));
  ConnectClient();
  CallOutcome<SlowAdd> slow;
  Start<SlowAdd>(1, slow);
  EXPECT_TRUE(Call<testing::Null>());
  EXPECT_TRUE(Call<testing::Null>()) << "the calls before it are no longer listed, or are judged";
  EXPECT_EQ(binding.listed, (std::vector<bool>{false, true, true}));
  program.Release();
  TurnUntil([&] { return slow.has_value(); });
  StopServer(1s);
}

TEST_F(TcpTest, DisconnectsAClientThatStopsReadingReplies) {
  StartServer({.max_queued_octets = 100'000, .stall_limit = 200ms});
  const std::string bytes = Pattern(1 << 20);
  program.data = Data(Slice::Borrowed(AsBytes(bytes)));
  const FileDescriptor peer = RawConnection();
  std::string calls;
  for (uint32_t xid = 0; xid < 200; ++xid) {
    calls += Words({0x8000'002c, xid, 0, 2, testing::kTestProgram, 3, 4, 0, 0, 0, 0, 1 << 20});
  }
  Write(peer, calls);
  TurnUntil([&] { return server->connections() == 0; });
}

// A reply of 28 octets takes a buffer of 512 octets and an entry in the queue.
TEST_F(TcpTest, StopsReadingFromAPeerThatDoesNotReadSmallReplies) {
  StartServer({.max_queued_octets = 1 << 20});
  const int small = 4096;
  const FileDescriptor peer = RawConnection();
  ::setsockopt(peer.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::string calls;
  for (uint32_t xid = 0; xid < 10'000; ++xid) calls += Words({0x8000'0028}) + NullCall(xid);
  // Send until the socket buffers of the kernel are full too.
  size_t sent = 0, most = 0;
  for (int waited = 0; waited < 50; ++waited) {
    const size_t from = sent % calls.size();
    const ssize_t n = ::send(peer.get(), calls.data() + from, calls.size() - from, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<size_t>(n);
      waited = 0;
    }
    Turn(2ms);
    most = std::max(most, loop.buffers().outstanding());
  }
  EXPECT_LE(most, (size_t{1} << 20) / 512 + 200);
  EXPECT_EQ(server->connections(), 1u);
}

TEST_F(TcpTest, DisconnectsAPeerThatDoesNotFinishARecord) {
  StartServer({.stall_limit = 100ms});
  const FileDescriptor idle = RawConnection();
  const FileDescriptor stalled = RawConnection();
  Write(stalled, Words({0x8000'0028, 1, 0}));
  EXPECT_TRUE(ClosedByServer(stalled));
  TurnUntil([&] { return server->connections() == 1; });
  Turn(200ms);
  EXPECT_EQ(server->connections(), 1u) << "the server must keep a connection without a call";
}

TEST_F(TcpTest, DisconnectsManyStalledPeersInSeveralHandlers) {
  constexpr size_t kPeers = 150;
  StartServer({.stall_limit = 200ms});
  std::vector<FileDescriptor> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(RawConnection());
  for (const FileDescriptor& peer : peers) Write(peer, Words({0x8000'0028}));
  const auto is_closed = [](const FileDescriptor& peer) {
    char octet = 0;
    return ::recv(peer.get(), &octet, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  };
  // The loop executes one handler between two calls of this function.
  size_t seen = 0, most = 0;
  TurnUntil([&] {
    const auto closed = static_cast<size_t>(std::ranges::count_if(peers, is_closed));
    most = std::max(most, closed - seen);
    seen = closed;
    return closed == kPeers;
  });
  EXPECT_LE(most, 64u);
}

TEST_F(TcpTest, ARecordAboveTheLimitEndsOnlyItsConnection) {
  StartServer({.max_record = 1000});
  ConnectClient();
  const FileDescriptor hostile = RawConnection();
  Write(hostile, Words({0xffff'ffff}));
  EXPECT_TRUE(ClosedByServer(hostile));
  EXPECT_EQ(Call<Echo>(std::string(2000, 'x')).error().transport, CallError::kDisconnected);
  EXPECT_FALSE(channel->connected());
  ConnectClient();
  EXPECT_TRUE(Call<Echo>("still here"));
}

TEST_F(TcpTest, ADisconnectFailsPendingCalls) {
  StartServer();
  ConnectClient();
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> replies(3);
  for (uint32_t i = 0; i < replies.size(); ++i) Start<SlowAdd>(i, replies[i]);
  TurnUntil([&] { return program.waiting.size() == 3; });
  // The server closes the connection. The calls end later.
  Spawn([](Server& stopped) -> Task<void> { co_await stopped.Stop(1ms); }(*server));
  TurnUntil([&] { return replies[0] && replies[1] && replies[2]; });
  for (auto& reply : replies) EXPECT_EQ(reply->error().transport, CallError::kDisconnected);
  EXPECT_FALSE(channel->connected());
  EXPECT_EQ(Call<Echo>("late").error().transport, CallError::kDisconnected);
  EXPECT_EQ(server->connections(), 1u);
  program.Release();
  EXPECT_EQ(server->connections(), 0u);
}

TEST_F(TcpTest, StopLetsRunningCallsEnd) {
  StartServer();
  ConnectClient();
  std::optional<Result<Reply<uint32_t>, Error>> slow;
  Start<SlowAdd>(1, slow);
  TurnUntil([&] { return program.waiting.size() == 1; });
  bool stopped = false;
  BeginStop(*server, 10s, stopped);
  Turn();
  EXPECT_FALSE(stopped);
  program.Release();
  TurnUntil([&] { return stopped && slow; });
  EXPECT_TRUE(*slow);
}

TEST_F(TcpTest, ATimeoutOfAnUnsentCallClosesTheConnection) {
  // No server accepts connections from this listener.
  ConnectClient({.call_limit = 80ms});
  const std::string text = Pattern(1'900'000);
  std::vector<std::optional<Result<Reply<Echo::Results>, Error>>> replies(20);
  for (auto& reply : replies) Start<Echo>(text, reply);
  TurnUntil([&] { return std::ranges::all_of(replies, [](auto& reply) { return reply.has_value(); }); });
  EXPECT_FALSE(channel->connected());
}

TEST_F(TcpTest, RefusesClientsThatAreNotAllowed) {
  StartServer({.allow = [](const IpAddress& from) { return !from.is_loopback(); }});
  ConnectClient();
  EXPECT_EQ(Call<testing::Null>().error().transport, CallError::kDisconnected);
}

TEST_F(TcpTest, LimitsTheNumberOfConnections) {
  StartServer({.connections = std::make_shared<ConnectionTable>(ConnectionTable::Limits{.connections = 1})});
  ConnectClient();
  EXPECT_TRUE(Call<testing::Null>());
  const auto second = Connect();
  TurnUntil([&] { return !second->connected(); });
  EXPECT_TRUE(Call<testing::Null>());
}

TEST_F(TcpTest, AnIdleConnectionMakesRoomForANewOne) {
  const ConnectionTable::Limits limits{.connections = 2, .per_address = 2, .idle_limit = Duration::zero()};
  StartServer({.connections = std::make_shared<ConnectionTable>(limits)});
  ConnectClient();
  std::optional<Result<Reply<uint32_t>, Error>> slow;
  Start<testing::SlowAdd>(1, slow);
  const auto idle = Connect();
  TurnUntil([&] { return server->connections() == 2; });
  const auto third = Connect();
  TurnUntil([&] { return !idle->connected(); });
  EXPECT_TRUE(third->connected());
  program.Release();
  TurnUntil([&] { return slow.has_value(); });
  EXPECT_TRUE(*slow) << "the server must not close a busy connection";
}

TEST_F(TcpTest, APeerWaitsUntilADescriptorIsFree) {
  int told = 0;
  StartServer({.shortage = std::make_shared<DescriptorShortage>([&] { ++told; })});
  ConnectClient();
  EXPECT_TRUE(Call<testing::Null>());
  asio::ip::tcp::socket peer(loop.context(), asio::ip::tcp::v4());
  {
    const AllDescriptorsTaken all;
    peer.connect(address);
    TurnUntil([&] { return told >= 2; });
    EXPECT_LT(told, 10) << "the server must pause between attempts";
    EXPECT_EQ(server->connections(), 1u);
  }
  TurnUntil([&] { return server->connections() == 2; });
}

TEST_F(TcpTest, ReservesTheLastDescriptorsForOtherUses) {
  int asked = 0;
  auto few = std::make_optional<NoFreeDescriptors>(8);
  StartServer({.shortage = std::make_shared<DescriptorShortage>([&] { ++asked; })});
  asio::ip::tcp::socket peer(loop.context(), asio::ip::tcp::v4());
  peer.connect(address);
  TurnUntil([&] { return asked > 2; });
  EXPECT_EQ(server->connections(), 0u);
  few.reset();  // more descriptors are free now
  TurnUntil([&] { return server->connections() == 1; });
}

TEST_F(TcpTest, ConnectFailsWithoutAListener) {
  listener.reset();
  EXPECT_EQ(TryConnect().error(), std::errc::connection_refused);
}

TEST_F(TcpTest, UsesAReservedPortOnRequest) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs CAP_NET_BIND_SERVICE";
  StartServer();
  auto connected = TryConnect({.local_port = LocalPort::kReserved});
  ASSERT_TRUE(connected);
  EXPECT_LT((*connected)->local().port(), kFirstUnreservedPort);
  // A second connection gets another port.
  EXPECT_TRUE(TryConnect({.local_port = LocalPort::kReserved}));
}

TEST_F(TcpTest, AReplyToAnUnsentCallEndsTheConnection) {
  ConnectClient();
  FileDescriptor peer(::accept(listener->fd(), nullptr, nullptr));
  const std::string text = Pattern(1'900'000);
  std::vector<std::optional<Result<Reply<Echo::Results>, Error>>> replies(10);
  for (auto& reply : replies) Start<Echo>(text, reply);
  Turn();
  Write(peer, NullReply(1009));
  TurnUntil([&] { return replies[9].has_value(); });
  EXPECT_EQ(replies[9]->error().transport, CallError::kDisconnected);
}

// The turn does not depend on which loop runs.
TEST_F(TcpTest, ServersOfOnePortAcceptPeersInTurn) {
  StartServer();
  Loop other_loop;
  Server other(other_loop, dispatcher);
  ASSERT_TRUE(other.Start(*listener));
  std::vector<asio::ip::tcp::socket> peers;
  const auto connect = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) peers.emplace_back(loop.context(), asio::ip::tcp::v4()).connect(address);
  };
  const auto turn_other = [&] {
    other_loop.context().restart();
    other_loop.context().poll();
  };
  connect(10);
  TurnUntil([&] {
    turn_other();
    return server->connections() + other.connections() == 10;
  });
  EXPECT_EQ(server->connections(), 5u);
  EXPECT_EQ(other.connections(), 5u);
  peers.clear();
  bool stopped = false;
  BeginStop(other, 1s, stopped);
  TurnUntil([&] {
    turn_other();
    return stopped;
  });
  connect(2);
  TurnUntil([&] { return server->connections() == 2; });
}

TEST(ListenerTest, ReportsWhyItCannotListen) {
  const auto first = Listener::Open({make_address("127.0.0.1"), 0});
  ASSERT_TRUE(first);
  const auto second = Listener::Open(first->local());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, ::testing::HasSubstr("Address already in use"));
  EXPECT_FALSE(Listener::Open({make_address("192.0.2.1"), 0}));
}

}  // namespace
}  // namespace penstock::rpc::tcp
