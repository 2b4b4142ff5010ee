// Tests of calls from a server to its clients over the clients' connections: RFC 8881 §2.10.3.1.
#include <thread>

#include "rpc/tcp/tcp_test.h"

namespace penstock::rpc::tcp {
namespace {

using testing::Echo;
using testing::SlowAdd;
using Kind = Error::Kind;

class BackChannelTest : public TcpTest {
 protected:
  BackChannelTest() { client_dispatcher.Add(client_program); }
  ~BackChannelTest() override {
    channel.reset();
    client_program.Release();
    program.Release();
    StopServer(1s);
  }

  // Remembers the back channel of the last caller.
  class Listening : public CallHandler {
   public:
    explicit Listening(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}
    Task<Message> HandleCall(Message call, const Peer& peer) override {
      back_channel = peer.back_channel;
      return dispatcher_.HandleCall(std::move(call), peer);
    }
    std::shared_ptr<BackChannel> back_channel;

   private:
    Dispatcher& dispatcher_;
  };

  void StartServer(ServerOptions options = {}) {
    server = std::make_unique<Server>(loop, handler, std::move(options));
    ASSERT_TRUE(server->Start(*listener));
  }
  // Connects a client and makes one call. The server gets the back channel with the first call of the client.
  void Connect(ChannelOptions options = {}) {
    ConnectClient(options);
    ASSERT_TRUE(Call<testing::Null>());
    Take();
  }
  void Take() {
    ASSERT_TRUE(handler.back_channel && handler.back_channel->connected());
    back = std::move(handler.back_channel);
    back_client.emplace(*back);
  }
  void ConnectAnswering() { Connect({.back_channel = &client_dispatcher}); }

  template <class Procedure>
  void StartBack(typename Procedure::Arguments arguments, CallOutcome<Procedure>& out) {
    StartFrom<Procedure>(*back_client, arguments, out);
  }
  template <class Procedure>
  Result<Reply<typename Procedure::Results>, Error> CallBack(typename Procedure::Arguments arguments = {}) {
    return CallFrom<Procedure>(*back_client, arguments);
  }
  // A plain TCP connection that has made one call, so that the server has its back channel.
  FileDescriptor RawPeer() {
    FileDescriptor peer = RawConnection();
    Write(peer, Words({0x8000'0028}) + NullCall(1));
    EXPECT_EQ(ReadFrom(peer, 28), NullReply(1));
    Take();
    return peer;
  }
  // Reads a call of the null procedure that the server has sent to `peer`. Returns its XID.
  uint32_t ReadNullCall(const FileDescriptor& peer) {
    const std::string call = ReadFrom(peer, 44);
    const uint32_t xid = call.size() == 44 ? LoadBig<uint32_t>(AsBytes(call).data() + 4) : 0;
    EXPECT_EQ(call, Words({0x8000'0028}) + NullCall(xid));
    return xid;
  }

  Listening handler{dispatcher};
  testing::TestProgram client_program;
  Dispatcher client_dispatcher;
  std::shared_ptr<BackChannel> back;
  std::optional<Client> back_client;
};

TEST_F(BackChannelTest, CallsTheClientThatHasCalled) {
  StartServer();
  ConnectAnswering();
  EXPECT_EQ(back->loop(), &loop);
  EXPECT_EQ(CallBack<Echo>("anybody there?")->results, "anybody there?");
  EXPECT_EQ(CallBack<testing::Add>(5)->results, 5u);
  EXPECT_EQ(client_program.sum, 5u);
  EXPECT_EQ(program.sum, 0u);
}

TEST_F(BackChannelTest, BothSidesCallAtTheSameTime) {
  StartServer();
  Connect({.back_channel = &client_dispatcher, .max_back_calls = 80});
  // Use the same XIDs in both directions.
  client.emplace(*channel, loop.buffers(), Xid(back->xids().Next().value() + 1));
  constexpr uint32_t kCalls = 40;
  const std::string text = Pattern(100'000);
  std::vector<std::optional<Result<Reply<Echo::Results>, Error>>> forth(kCalls), backwards(kCalls);
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> slow(kCalls);
  for (uint32_t i = 0; i < kCalls; ++i) {
    Start<Echo>(std::string_view(text).substr(i), forth[i]);
    StartBack<SlowAdd>(1, slow[i]);
    StartBack<Echo>(std::string_view(text).substr(2 * i), backwards[i]);
  }
  const auto over = [](const auto& result) { return result.has_value(); };
  TurnUntil([&] { return std::ranges::all_of(forth, over) && std::ranges::all_of(backwards, over); });
  for (uint32_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ((*forth[i])->results, std::string_view(text).substr(i));
    EXPECT_EQ((*backwards[i])->results, std::string_view(text).substr(2 * i));
  }
  EXPECT_TRUE(std::ranges::none_of(slow, over)) << "slow calls must not delay other calls";
  client_program.Release();
  TurnUntil([&] { return std::ranges::all_of(slow, over); });
  EXPECT_EQ(client_program.sum, kCalls);
}

TEST_F(BackChannelTest, TheServerReadsNoMoreCallsThanTheCreditsThatAreLeft) {
  StartServer({.max_calls = 4});
  ConnectAnswering();
  back->Withdraw(2, 1s);
  back->Withdraw(3, 1s);  // is not lower
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> replies(5);
  for (auto& reply : replies) Start<SlowAdd>(1, reply);
  for (const size_t calls : {2, 2, 1}) {
    TurnUntil([&] { return program.waiting.size() >= calls; });
    Turn(20ms);
    EXPECT_EQ(program.waiting.size(), calls);
    program.Release();
  }
  TurnUntil([&] { return std::ranges::all_of(replies, [](auto& reply) { return reply.has_value(); }); });
}

TEST_F(BackChannelTest, ACallMayWaitForAReplyOfItsOwnCaller) {
  // These calls reach the limit on calls. Without the higher limit during calls to the client, the replies of the
  // client would be stuck behind the last call.
  StartServer({.max_calls = 2});
  ConnectAnswering();
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> forth(4);
  std::optional<Result<Reply<uint32_t>, Error>> backwards;
  StartBack<SlowAdd>(1, backwards);
  TurnUntil([&] { return client_program.waiting.size() == 1; });
  for (uint32_t i = 0; i < 3; ++i) Start<SlowAdd>(1, forth[i]);
  TurnUntil([&] { return program.waiting.size() == 3; });
  client_program.Release();
  TurnUntil([&] { return backwards.has_value(); });
  Start<SlowAdd>(1, forth[3]);
  Turn(20ms);
  EXPECT_EQ(program.waiting.size(), 3u) << "no call to the client is pending, so that the lower limit applies";
  program.Release();
  TurnUntil([&] { return program.waiting.size() == 1; });
  program.Release();
  TurnUntil([&] { return forth[3].has_value(); });
}

TEST_F(BackChannelTest, ErrorsOfTheClientReachTheCaller) {
  StartServer();
  Dispatcher nothing;
  Connect({.back_channel = &nothing});
  EXPECT_EQ(CallBack<testing::Null>().error().kind, Kind::kProgramUnavailable);
}

TEST_F(BackChannelTest, CallsToAClientWithoutABackChannelTimeOut) {
  StartServer({.back_call_limit = 500ms});
  Connect();
  EXPECT_EQ(CallBack<testing::Null>().error().transport, CallError::kTimedOut);
  EXPECT_TRUE(back->connected());
  EXPECT_TRUE(Call<testing::Null>());
}

TEST_F(BackChannelTest, DropsALateReply) {
  StartServer({.back_call_limit = 500ms});
  ConnectAnswering();
  EXPECT_EQ(CallBack<SlowAdd>(1).error().transport, CallError::kTimedOut);
  client_program.Release();
  EXPECT_TRUE(CallBack<testing::Null>());
}

TEST_F(BackChannelTest, DropsUnexpectedReplies) {
  StartServer();
  const FileDescriptor peer = RawPeer();
  Write(peer, NullReply(77));  // before the server has made any call
  std::optional<Result<Reply<xdr::Void>, Error>> result;
  StartBack<testing::Null>({}, result);
  const uint32_t xid = ReadNullCall(peer);
  Write(peer, NullReply(xid + 1));                    // a reply to another call
  Write(peer, Words({0x8000'0028}) + NullCall(xid));  // a call with the same XID
  EXPECT_EQ(ReadFrom(peer, 28), NullReply(xid));
  EXPECT_FALSE(result);
  Write(peer, NullReply(xid));
  TurnUntil([&] { return result.has_value(); });
  EXPECT_TRUE(*result);
  Write(peer, NullReply(xid));  // the same reply again
  Write(peer, Words({0x8000'0028}) + NullCall(2));
  EXPECT_EQ(ReadFrom(peer, 28), NullReply(2));
}

TEST_F(BackChannelTest, AMalformedReplyFailsOnlyItsCall) {
  StartServer();
  const FileDescriptor peer = RawPeer();
  std::optional<Result<Reply<xdr::Void>, Error>> result;
  StartBack<testing::Null>({}, result);
  Write(peer, Words({0x8000'000c, ReadNullCall(peer), 1, 99}));
  TurnUntil([&] { return result.has_value(); });
  EXPECT_EQ(result->error().kind, Kind::kMalformedReply);
  EXPECT_TRUE(back->connected());
}

TEST_F(BackChannelTest, CallsEndWithTheConnection) {
  StartServer();
  ConnectAnswering();
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> replies(3);
  for (uint32_t i = 0; i < replies.size(); ++i) StartBack<SlowAdd>(i, replies[i]);
  TurnUntil([&] { return client_program.waiting.size() == 3; });
  channel->Close();
  TurnUntil([&] { return replies[0] && replies[1] && replies[2]; });
  for (auto& reply : replies) EXPECT_EQ(reply->error().transport, CallError::kDisconnected);
  EXPECT_FALSE(back->connected());
  EXPECT_EQ(CallBack<testing::Null>().error().transport, CallError::kDisconnected);
  client_program.Release();  // its replies cannot be sent
}

TEST_F(BackChannelTest, CallsEndWhenTheClientClosesItsSendingSide) {
  StartServer();
  const FileDescriptor peer = RawPeer();
  // A call of the client keeps the connection open until its reply has left.
  Write(peer, Words({0x8000'002c, 5, 0, 2, testing::kTestProgram, 3, 3, 0, 0, 0, 0, 42}));
  std::optional<Result<Reply<xdr::Void>, Error>> result;
  StartBack<testing::Null>({}, result);
  ReadNullCall(peer);
  ::shutdown(peer.get(), SHUT_WR);
  TurnUntil([&] { return result.has_value(); });
  EXPECT_EQ(result->error().transport, CallError::kDisconnected);
  EXPECT_EQ(server->connections(), 1u);
  EXPECT_EQ(CallBack<testing::Null>().error().transport, CallError::kDisconnected);
  program.Release();
  EXPECT_EQ(ReadFrom(peer, 32), Words({0x8000'001c, 5, 1, 0, 0, 0, 0, 42}));
}

TEST_F(BackChannelTest, OutlivesItsConnectionAndItsServer) {
  StartServer();
  ConnectAnswering();
  channel.reset();
  StopServer(1s);
  EXPECT_FALSE(back->connected());
  EXPECT_EQ(CallBack<testing::Null>().error().transport, CallError::kDisconnected);
}

TEST_F(BackChannelTest, AStoppingServerDoesNotWaitForReplies) {
  StartServer();
  ConnectAnswering();
  std::optional<Result<Reply<uint32_t>, Error>> slow;
  StartBack<SlowAdd>(1, slow);
  TurnUntil([&] { return client_program.waiting.size() == 1; });
  StopServer(10s);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->error().transport, CallError::kDisconnected);
}

TEST_F(BackChannelTest, AcceptsCallsFromOtherLoops) {
  StartServer();
  ConnectAnswering();
  Loop other;
  std::optional<bool> answered;
  std::thread thread([&other] { other.Run(); });
  other.Post([&] {
    Spawn([](std::shared_ptr<BackChannel> to, Loop& home, std::optional<bool>& out, Loop& at) -> Task<void> {
      co_await SwitchTo(*to->loop());
      Client caller(*to);
      const bool good = (co_await caller.Call<Echo>("hop")).has_value();
      co_await SwitchTo(home);
      at.Post([good, &out] { out = good; });
      home.Stop();
    }(back, other, answered, loop));
  });
  TurnUntil([&] { return answered.has_value(); });
  thread.join();
  EXPECT_TRUE(*answered);
}

// ---- the client's limits ----

TEST_F(BackChannelTest, DisconnectsAServerThatCallsTooOften) {
  ConnectClient({.back_channel = &client_dispatcher, .max_back_calls = 3});
  const FileDescriptor peer(::accept(listener->fd(), nullptr, nullptr));
  const std::string slow = Words({0x8000'002c, 5, 0, 2, testing::kTestProgram, 3, 3, 0, 0, 0, 0, 42});
  for (int i = 0; i < 3; ++i) Write(peer, slow);
  TurnUntil([&] { return client_program.waiting.size() == 3; });
  EXPECT_TRUE(channel->connected());
  Write(peer, slow);
  TurnUntil([&] { return !channel->connected(); });
}

TEST_F(BackChannelTest, DisconnectsAServerThatStopsReadingReplies) {
  ConnectClient({.back_channel = &client_dispatcher, .max_back_calls = 40});
  const std::string bytes = Pattern(1 << 20);
  client_program.data = Data(Slice::Borrowed(AsBytes(bytes)));
  const FileDescriptor peer(::accept(listener->fd(), nullptr, nullptr));
  for (uint32_t xid = 0; xid < 200; ++xid) {
    // The connection may be closed already.
    const std::string read = Words({0x8000'002c, xid, 0, 2, testing::kTestProgram, 3, 4, 0, 0, 0, 0, 1 << 20});
    ::send(peer.get(), read.data(), read.size(), MSG_NOSIGNAL);
  }
  TurnUntil([&] { return !channel->connected(); });
}

}  // namespace
}  // namespace penstock::rpc::tcp
