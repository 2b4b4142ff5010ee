// Tests of calls and replies over TCP connections.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/loop_turn.h"
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
  ExpectPayloads();
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

TEST_F(TcpTest, AServerThatSendsAllTheTimeDoesNotHoldUpOtherWorkOfTheClient) {
  // The test plays the server itself.
  ConnectClient();
  const FileDescriptor peer(::accept(listener->fd(), nullptr, nullptr));
  constexpr size_t kData = 64 << 10;
  std::vector<std::optional<Result<Reply<Echo::Results>, Error>>> replies(40);
  for (auto& reply : replies) Start<Echo>("", reply);
  ReadFrom(peer, replies.size() * (NullCall(0).size() + 8));
  std::string octets;
  for (uint32_t i = 0; i < replies.size(); ++i) {
    octets += Words({0x8000'0000 + 28 + kData, 1000 + i, 1, 0, 0, 0, 0, kData}) + Pattern(kData);
  }
  std::string_view rest = octets;
  const auto send = [&] {
    const ssize_t n = ::send(peer.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
    return n > 0;
  };
  while (send()) {
  }
  const size_t waiting = octets.size() - rest.size();
  ASSERT_GT(waiting, 12 * kData) << "the kernel must hold more than the client takes in one turn";

  // The loop executes one handler between two calls of this function.
  size_t seen = 0, most = 0;
  TurnUntil([&] {
    const auto arrived = static_cast<size_t>(std::ranges::count_if(replies, [](auto& reply) { return !!reply; }));
    most = std::max(most, arrived - seen);
    seen = arrived;
    send();
    return arrived == replies.size();
  });
  // The share of a turn, and the record that the turn before has begun to receive.
  EXPECT_LE(most, 8u + 1u);
  for (auto& reply : replies) EXPECT_EQ(reply->value().results, Pattern(kData));
}

TEST_F(TcpTest, AClientThatReadsAllTheTimeDoesNotHoldUpOtherWorkOfTheServer) {
  constexpr uint32_t kData = 512 << 10, kCalls = 60;
  StartServer({.max_calls = kCalls, .max_queued_octets = 2 * kData});
  const std::string bytes = Pattern(kData);
  program.data = Data(Slice::Borrowed(AsBytes(bytes)));
  const FileDescriptor peer = RawConnection();
  std::atomic<bool> has_read = false;
  std::jthread reader([&] {
    std::vector<char> buffer(1 << 20);
    for (size_t read = 0; read < kCalls * size_t{kData};) {
      const ssize_t n = ::recv(peer.get(), buffer.data(), buffer.size(), 0);
      if (n <= 0) break;
      read += static_cast<size_t>(n);
    }
    has_read = true;
  });
  std::string calls;
  for (uint32_t i = 0; i < kCalls; ++i) {
    calls += Words({0x8000'0000 + 44, i, 0, 2, testing::kTestProgram, 3, testing::Read::kNumber, 0, 0, 0, 0, kData});
  }
  Write(peer, calls);
  // A handler executes calls until two replies wait, and sends those.
  EXPECT_LE(MostCallsOfAHandler(kCalls), 4u);
  TurnUntil([&] { return has_read.load(); });
  StopServer(std::chrono::seconds(1));  // it may still be sending the last of `bytes`
}

TEST_F(TcpTest, CallsThatTakeLongDoNotHoldUpOtherWorkOfTheServer) {
  constexpr uint32_t kCalls = 40;
  StartServer();
  program.on_call = [] { std::this_thread::sleep_for(2 * LoopTurn::kLimit); };
  const FileDescriptor peer = RawConnection();
  std::string calls;
  for (uint32_t i = 0; i < kCalls; ++i) calls += Words({0x8000'0028}) + NullCall(i);
  Write(peer, calls);
  EXPECT_EQ(MostCallsOfAHandler(kCalls), 1u);
  std::string replies;
  for (uint32_t i = 0; i < kCalls; ++i) replies += NullReply(i);
  EXPECT_EQ(ReadFrom(peer, replies.size()), replies);
}

TEST_F(TcpTest, ExecutesARetransmissionOverAnotherConnectionOnce) {
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
TEST_F(TcpTest, DropsALateRetransmissionAndClosesItsConnection) {
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

}  // namespace
}  // namespace penstock::rpc::tcp
