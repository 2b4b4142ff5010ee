#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/descriptor_shortage.h"
#include "base/failing_disk.h"
#include "base/test_descriptors.h"
#include "rpc/tcp/tcp_test.h"

namespace penstock::rpc::tcp {
namespace {

using testing::Echo;
using testing::SlowAdd;
using Kind = Error::Kind;

TEST_F(TcpTest, ConveysCallsAndReplies) {
  StartServer();
  ConnectClient();
  EXPECT_TRUE(Call<testing::Null>());
  const auto reply = Call<Echo>("hello");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->results, "hello");
}

struct Later : testing::Procedure<0, xdr::Void, xdr::Void> {
  static constexpr uint32_t kVersion = 9;
};
struct Other : testing::Procedure<0, xdr::Void, xdr::Void> {
  static constexpr uint32_t kProgram = 9;
};

TEST_F(TcpTest, ErrorsOfThePeerReachTheCaller) {
  StartServer();
  ConnectClient();
  EXPECT_EQ(Call<testing::Fail>().error().kind, Kind::kSystemError);
  const auto weak = Call<testing::WhoAmI>();
  ASSERT_FALSE(weak);
  EXPECT_EQ(weak.error().kind, Kind::kAuthentication);
  EXPECT_EQ(weak.error().auth, AuthStatus::AUTH_TOOWEAK);
  EXPECT_EQ(Describe(weak.error()), "the server rejects our credentials (AUTH_TOOWEAK)");
  const auto later = Call<Later>();
  EXPECT_EQ(later.error().kind, Kind::kProgramMismatch);
  EXPECT_EQ(later.error().versions, (VersionRange{2, 3}));
  EXPECT_EQ(Call<Other>().error().kind, Kind::kProgramUnavailable);
  EXPECT_EQ((Call<testing::Procedure<99, xdr::Void, xdr::Void>>().error().kind), Kind::kProcedureUnavailable);
  EXPECT_EQ((Call<testing::Procedure<0, uint32_t, xdr::Void>>().error().kind), Kind::kGarbageArguments);
  EXPECT_EQ((Call<testing::Procedure<0, xdr::Void, uint32_t>>().error().kind), Kind::kMalformedReply);
}

TEST_F(TcpTest, SendsTheCredentialOfTheClient) {
  StartServer();
  ConnectClient();
  client.emplace(*channel, loop.buffers(), Xid(1), ClientCredential(SystemIdentity{"host", 1234, 100, {}}));
  EXPECT_EQ(Call<testing::WhoAmI>()->results, 1234u);
}

TEST_F(TcpTest, ConveysLargeCallsAndReplies) {
  StartServer();
  ConnectClient();
  for (size_t size : {1u, 65530u, 65536u, 300'000u, 1u << 20, 1'900'000u}) {
    const std::string text = Pattern(size);
    const auto reply = Call<Echo>(text);
    ASSERT_TRUE(reply) << size;
    EXPECT_EQ(reply->results, text);
  }
}

TEST_F(TcpTest, SendsPayloadsFromMemoryAndFiles) {
  StartServer();
  ConnectClient();
  const std::string bytes = Pattern(1'000'003);
  program.data = Data(Slice::Borrowed(AsBytes(bytes)));
  EXPECT_EQ(Call<testing::Read>(999)->results.text(), bytes.substr(0, 999));

  auto file = std::make_shared<FileDescriptor>(::memfd_create("test", 0));
  ASSERT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  program.data = Data(file, 0, bytes.size());
  for (uint32_t size : {0u, 1u, 3u, 4096u, 1'000'003u}) {
    const auto reply = Call<testing::Read>(size);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->results.text(), bytes.substr(0, size));
  }
  // A file that is truncated before the reply leaves: zeros replace the missing octets.
  ASSERT_EQ(::ftruncate(file->get(), 1000), 0);
  EXPECT_EQ(Call<testing::Read>(300'001)->results.text(), bytes.substr(0, 1000) + std::string(299'001, '\0'));
}

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

TEST_F(TcpTest, AThousandCallsShareTheConnection) {
  StartServer({.max_calls = 16});
  ConnectClient();
  std::vector<std::optional<Result<Reply<Echo::Results>, Error>>> replies(1000);
  std::vector<std::string> texts;
  for (size_t i = 0; i < replies.size(); ++i) texts.push_back(std::to_string(i) + Pattern(i * 7));
  for (size_t i = 0; i < replies.size(); ++i) Start<Echo>(texts[i], replies[i]);
  TurnUntil([&] { return std::ranges::all_of(replies, [](auto& reply) { return reply.has_value(); }); });
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(*replies[i]);
    EXPECT_EQ((*replies[i])->results, texts[i]);
  }
}

TEST_F(TcpTest, SlowCallsDoNotHoldUpOthers) {
  StartServer();
  ConnectClient();
  std::optional<Result<Reply<uint32_t>, Error>> slow;
  Start<SlowAdd>(1, slow);
  EXPECT_TRUE(Call<Echo>("quick"));
  EXPECT_FALSE(slow);
  program.Release();
  TurnUntil([&] { return slow.has_value(); });
  EXPECT_EQ((*slow)->results, 1u);
}

TEST_F(TcpTest, ARepeatedCallOnAnotherConnectionIsExecutedOnce) {
  StartServer();
  ConnectClient();
  std::optional<Result<Reply<uint32_t>, Error>> lost;
  Start<SlowAdd>(5, lost);
  TurnUntil([&] { return program.waiting.size() == 1; });
  channel->Close();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error().transport, CallError::kDisconnected);
  // Send the same XID again, first while the call is running, then after its end.
  ConnectClient();
  std::optional<Result<Reply<uint32_t>, Error>> again;
  Start<SlowAdd>(5, again);
  Turn();
  EXPECT_EQ(program.waiting.size(), 1u);
  program.Release();
  TurnUntil([&] { return again.has_value(); });
  EXPECT_EQ((*again)->results, 5u);
  ConnectClient();
  EXPECT_EQ(Call<SlowAdd>(5)->results, 5u);
  EXPECT_EQ(program.sum, 5u);
}

// The client repeats the calls over another connection before the server has read them from the first one.
TEST_F(TcpTest, AnOutdatedRepetitionIsDroppedAndItsConnectionClosed) {
  StartServer({.max_calls = 1});
  const auto set = [](uint32_t xid, uint32_t value) {
    return Words({0x8000'002c, xid, 0, 2, testing::kTestProgram, 3, testing::SlowSet::kNumber, 0, 0, 0, 0, value});
  };
  const auto reply = [](uint32_t xid, uint32_t value) { return Words({0x8000'001c, xid, 1, 0, 0, 0, 0, value}); };
  const FileDescriptor left = RawConnection();
  // While the first call is running, the server does not read the others.
  Write(left, Words({0x8000'002c, 1, 0, 2, testing::kTestProgram, 3, testing::SlowAdd::kNumber, 0, 0, 0, 0, 0}));
  TurnUntil([this] { return program.waiting.size() == 1; });
  Write(left, set(2, 20) + set(3, 30));
  Turn();
  const auto slow = std::exchange(program.waiting, {});
  const FileDescriptor next = RawConnection();
  for (const auto& [xid, value] : {std::pair{2u, 20u}, {3u, 30u}, {4u, 40u}}) {
    Write(next, set(xid, value));
    TurnUntil([this] { return program.waiting.size() == 1; });
    program.Release();
    EXPECT_EQ(ReadFrom(next, 32), reply(xid, value));
  }
  program.waiting = slow;
  program.Release();
  EXPECT_TRUE(ReadFrom(left, 33).size() <= 32) << "the server closed the connection after the first reply";
  EXPECT_EQ(program.waiting.size(), 0u);
  EXPECT_EQ(program.sum, 40u);
}

TEST_F(TcpTest, ReadsNoMoreCallsThanItsLimit) {
  StartServer({.max_calls = 4});
  ConnectClient();
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> replies(10);
  for (uint32_t i = 0; i < replies.size(); ++i) Start<SlowAdd>(i, replies[i]);
  for (const size_t calls : {4, 4, 2}) {
    TurnUntil([&] { return program.waiting.size() >= calls; });
    Turn(20ms);
    EXPECT_EQ(program.waiting.size(), calls);
    program.Release();
  }
  TurnUntil([&] { return std::ranges::all_of(replies, [](auto& reply) { return reply.has_value(); }); });
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

TEST_F(TcpTest, JoinsFragmentsOfAnySize) {
  StartServer();
  const FileDescriptor peer = RawConnection();
  const std::string call = NullCall(77);
  // Send each octet in a fragment and a segment of its own, with empty fragments between them. Then send records that
  // are no calls.
  for (char octet : call) {
    Write(peer, Words({0, 1}) + octet);
    Turn(100us);
  }
  Write(peer, Words({0x8000'0000}) + Words({0x8000'0000}) + Words({0x8000'0003}) + "abc");
  Write(peer, Words({0x8000'0028}) + NullCall(78));
  EXPECT_EQ(ReadFrom(peer, 56), NullReply(77) + NullReply(78));
}

TEST_F(TcpTest, RepliesToAPeerThatHasClosedItsSendingSide) {
  StartServer();
  const FileDescriptor peer = RawConnection();
  Write(peer, Words({0x8000'002c, 5, 0, 2, testing::kTestProgram, 3, 3, 0, 0, 0, 0, 42}));
  ::shutdown(peer.get(), SHUT_WR);
  TurnUntil([&] { return program.waiting.size() == 1; });
  Turn();
  EXPECT_EQ(server->connections(), 1u);
  program.Release();
  EXPECT_EQ(ReadFrom(peer, 100), Words({0x8000'001c, 5, 1, 0, 0, 0, 0, 42}));
  TurnUntil([&] { return server->connections() == 0; });
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

TEST_F(TcpTest, ATimeoutFailsOnlyItsCall) {
  StartServer();
  ConnectClient({.call_limit = 500ms});
  std::optional<Result<Reply<uint32_t>, Error>> slow;
  Start<SlowAdd>(1, slow);
  TurnUntil([&] { return slow.has_value(); });
  EXPECT_EQ(slow->error().transport, CallError::kTimedOut);
  program.Release();  // the client drops the late reply
  EXPECT_EQ(Call<Echo>("next")->results, "next");
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

TEST_F(TcpTest, UnexpectedAndMalformedRepliesDoNotAffectOtherCalls) {
  // The test plays the server itself.
  ConnectClient();
  const FileDescriptor peer(::accept(listener->fd(), nullptr, nullptr));
  std::optional<Result<Reply<xdr::Void>, Error>> first;
  std::optional<Result<Reply<xdr::Void>, Error>> second;
  Start<testing::Null>({}, first);
  Start<testing::Null>({}, second);
  ReadFrom(peer, 88);
  Write(peer, NullReply(9999) + Words({0x8000'0000}) + NullReply(1001) + Words({0x8000'0008, 1000, 7}));
  TurnUntil([&] { return first && second; });
  EXPECT_EQ(first->error().kind, Kind::kMalformedReply);
  EXPECT_TRUE(*second);
  EXPECT_TRUE(channel->connected());
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
