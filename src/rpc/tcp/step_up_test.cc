// Tests of the limits of a TCP connection, and of connections that leave TCP: rpc/connection_control.h.
#include <limits>

#include "rpc/step_up.h"
#include "rpc/tcp/tcp_test.h"

namespace penstock::rpc::tcp {
namespace {

using testing::Echo;
using testing::SlowAdd;

// The calls with these XIDs use the control of their connection.
constexpr uint32_t kStepUp = 1;        // steps up if that is offered
constexpr uint32_t kStepUpAlways = 2;  // steps up without an offer
constexpr uint32_t kBind = 3;          // binds the connection to two credits

class StepUpTest : public TcpTest {
 protected:
  class Stepping : public CallHandler {
   public:
    explicit Stepping(Dispatcher& dispatcher) : dispatcher_(dispatcher) {}
    Task<Message> HandleCall(Message call, const Peer& peer) override {
      const Xid xid(LoadBig<uint32_t>(call.stream.data()));
      back_channel = peer.back_channel;
      number = peer.connection;
      room = peer.control->ReplyRoom(xid);
      if (xid.value() == kStepUp) {
        offered = peer.control->OfferStepUp(xid, asked);
        if (offered) peer.control->StepUp(xid, *offered);
      }
      if (xid.value() == kStepUpAlways) peer.control->StepUp(xid, asked);
      if (xid.value() == kBind) {
        bound = peer.control->Offer(asked);
        peer.control->Bind(xid, bound);
      }
      return dispatcher_.HandleCall(std::move(call), peer);
    }

    ConnectionLimits asked{.max_request = 2048, .credits = 5, .padding = 64, .reads = 100};
    std::optional<ConnectionLimits> offered;
    ConnectionLimits bound;
    std::shared_ptr<BackChannel> back_channel;
    uint64_t number = 0;
    size_t room = 0;

   private:
    Dispatcher& dispatcher_;
  };

  // The channel of a connection after its change.
  class Next final : public BackChannel {
   public:
    explicit Next(const Peer& peer) : BackChannel(peer) {}
    Task<Result<Message, CallError>> Call(Message call, ReplyShape) override {
      ++calls;
      co_return std::move(call);
    }
    void CloseConnection(std::string why) override { closed = std::move(why); }
    void Withdraw(uint32_t credits, Duration limit) override { withdrawn.emplace_back(credits, limit); }
    std::vector<std::pair<uint32_t, Duration>> withdrawn;
    int calls = 0;
    std::string closed;
  };

  ~StepUpTest() override {
    channel.reset();
    program.Release();
    if (taken) taken->back_channel->HandleLost();
    taken.reset();
    StopServer(1s);
  }

  void StartServer(ServerOptions options = {}) {
    options.step_up_limits.most = {.max_request = 4096, .max_response = 1024, .credits = 64, .reads = 16};
    options.step_up_limits.longest_call = 8192;
    options.step_up = [this](SteppingConnection connection) { taken.emplace(std::move(connection)); };
    options.connections = connections;
    StartServerWithout(std::move(options));
  }
  void StartServerWithout(ServerOptions options) {
    server = std::make_unique<Server>(loop, handler, std::move(options));
    ASSERT_TRUE(server->Start(*listener));
  }
  static std::string Call(uint32_t xid) { return Words({0x8000'0028}) + NullCall(xid); }
  std::shared_ptr<Next> MakeNext() {
    Peer peer;
    peer.buffers = &loop.buffers();
    peer.loop = &loop;
    return std::make_shared<Next>(peer);
  }
  // Steps up with a raw peer.
  FileDescriptor SteppedUp() {
    StartServer();
    FileDescriptor peer = RawConnection();
    Write(peer, Call(kStepUp));
    TurnUntil([this] { return taken.has_value(); });
    return peer;
  }
  using Outcome = std::optional<Result<Message, CallError>>;
  static void StartBack(BackChannel& over, Outcome& out) {
    Spawn([](BackChannel& to, Outcome& result) -> Task<void> {
      Message call;
      call.stream = Slice::Borrowed(AsBytes("call"));
      result.emplace(co_await to.Call(std::move(call), {}));
    }(over, out));
  }

  Stepping handler{dispatcher};
  const std::shared_ptr<ConnectionTable> connections = std::make_shared<ConnectionTable>();
  std::optional<SteppingConnection> taken;
};

TEST_F(StepUpTest, AConnectionOffersItsOwnLimits) {
  StartServerWithout({.max_record = 100'000, .max_calls = 20});
  handler.asked = {.max_request = 0, .max_response = 5000, .credits = 1000, .padding = 64, .reads = 3};
  const FileDescriptor peer = RawConnection();
  Write(peer, Call(kBind));
  ReadFrom(peer, 28);
  EXPECT_EQ(handler.bound,
            (ConnectionLimits{.max_request = 100'000, .max_response = 5000, .credits = 20, .padding = 0, .reads = 0}));
  EXPECT_EQ(handler.room, std::numeric_limits<size_t>::max());
}

TEST_F(StepUpTest, FewCallsAtOnceMayBeLongerOverTheRdmaConnection) {
  StartServer();
  for (const auto& [credits, size] : {std::pair(64u, 4096u), std::pair(40u, 6553u), std::pair(8u, 8192u)}) {
    handler.asked = {.max_request = 100'000, .max_response = 0, .credits = credits, .padding = 0, .reads = 16};
    const FileDescriptor peer = RawConnection();
    Write(peer, Call(kStepUp));
    TurnUntil([this] { return taken.has_value(); });
    EXPECT_EQ(taken->limits.max_request, size) << credits;
    EXPECT_EQ(taken->limits.max_response, 1024u) << credits;
    taken->back_channel->HandleLost();
    taken.reset();
  }
}

TEST_F(StepUpTest, ABoundConnectionRunsNoMoreCallsThanItsCredits) {
  StartServer();
  handler.asked.credits = 2;
  ConnectClient();
  client.emplace(*channel, loop.buffers(), Xid(kBind));
  ASSERT_TRUE(TcpTest::Call<testing::Null>());
  std::vector<std::optional<Result<Reply<uint32_t>, Error>>> slow(3);
  for (auto& each : slow) Start<SlowAdd>(1, each);
  TurnUntil([this] { return program.waiting.size() == 2; });
  Turn(20ms);
  EXPECT_EQ(program.waiting.size(), 2u);
  program.Release();
  TurnUntil([this] { return program.waiting.size() == 1; });
  program.Release();
  TurnUntil([&] { return slow[2].has_value(); });
}

TEST_F(StepUpTest, HandsOverTheSocketWithTheReply) {
  const FileDescriptor peer = SteppedUp();
  EXPECT_EQ(handler.offered,
            (ConnectionLimits{.max_request = 2048, .max_response = 1024, .credits = 5, .padding = 0, .reads = 16}));
  EXPECT_EQ(taken->limits, *handler.offered);
  EXPECT_EQ(AsText(taken->last_octets), NullReply(kStepUp));
  EXPECT_TRUE(taken->socket.read_ahead.empty());
  EXPECT_EQ(taken->number, handler.number);
  EXPECT_EQ(taken->memory->used(), 0u);
  EXPECT_EQ(connections->connections(), 1u);
  TurnUntil([this] { return server->connections() == 0; });
  char octet;
  EXPECT_LT(::recv(peer.get(), &octet, 1, MSG_DONTWAIT), 0) << "the server must not send the reply itself";
  // The new owner uses the socket.
  Write(peer, "MPA?");
  EXPECT_EQ(taken->socket.socket.available(), 4u);
  EXPECT_EQ(::send(taken->socket.socket.native_handle(), "MPA!", 4, 0), 4);
  EXPECT_EQ(ReadFrom(peer, 4), "MPA!");
}

TEST_F(StepUpTest, IsNotOfferedByAServerThatCannot) {
  StartServerWithout({});
  const FileDescriptor peer = RawConnection();
  Write(peer, Call(kStepUp));
  EXPECT_EQ(ReadFrom(peer, 28), NullReply(kStepUp));
  EXPECT_FALSE(handler.offered);
}

TEST_F(StepUpTest, IsNotOfferedDuringAnotherCall) {
  StartServer();
  ConnectClient();
  client.emplace(*channel, loop.buffers(), Xid(50));
  CallOutcome<SlowAdd> slow;
  Start<SlowAdd>(1, slow);
  TurnUntil([this] { return program.waiting.size() == 1; });
  Client second(*channel, loop.buffers(), Xid(kStepUp));
  ASSERT_TRUE(CallFrom<testing::Null>(second, {}));
  EXPECT_FALSE(handler.offered);
  EXPECT_FALSE(taken);
  program.Release();
  TurnUntil([&] { return slow.has_value(); });
}

TEST_F(StepUpTest, IsNotOfferedDuringACallToTheClient) {
  StartServer();
  const FileDescriptor peer = RawConnection();
  Write(peer, Call(50));
  ReadFrom(peer, 28);
  Outcome outcome;
  StartBack(*handler.back_channel, outcome);
  Write(peer, Call(kStepUp));
  EXPECT_EQ(ReadFrom(peer, 8 + 28).substr(8), NullReply(kStepUp));
  EXPECT_FALSE(handler.offered);
  ::shutdown(peer.get(), SHUT_WR);
  TurnUntil([&] { return outcome.has_value(); });
}

TEST_F(StepUpTest, IsNotOfferedIfOctetsFollowTheCall) {
  StartServer();
  for (const std::string& behind : {Call(50), std::string("M"), Call(50).substr(0, 20)}) {
    handler.offered = ConnectionLimits();
    TurnUntil([this] { return server->connections() == 0; });
    const FileDescriptor peer = RawConnection();
    Write(peer, Call(kStepUp) + behind);
    EXPECT_EQ(ReadFrom(peer, 28), NullReply(kStepUp));
    EXPECT_FALSE(handler.offered);
    EXPECT_FALSE(taken);
  }
}

TEST_F(StepUpTest, AnMpaRequestTogetherWithTheCallIsTooEarly) {
  StartServer();
  const FileDescriptor peer = RawConnection();
  Write(peer, Call(kStepUp) + std::string("MPA ID Req Frame\x40\x02\0\0", 20));
  // The octets read as the mark of a record that is too long, so the server closes the connection.
  const std::string reply = ReadFrom(peer, 1000);
  EXPECT_TRUE(reply.empty() || reply == NullReply(kStepUp));
  EXPECT_FALSE(handler.offered);
  EXPECT_FALSE(taken);
}

TEST_F(StepUpTest, ClosesIfACallArrivesBetweenTheOfferAndTheStep) {
  StartServer();
  const FileDescriptor peer = RawConnection();
  Write(peer, Call(kStepUpAlways) + Call(50));
  EXPECT_TRUE(ClosedByServer(peer));
  EXPECT_FALSE(taken);
}

TEST_F(StepUpTest, ExecutesNoCallBehindTheGrant) {
  const FileDescriptor peer = SteppedUp();
  Write(peer, Call(50));
  Turn(10ms);
  EXPECT_EQ(handler.number, taken->number);
  EXPECT_EQ(taken->socket.socket.available(), 44u) << "the octets are for the new owner, which refuses them";
}

TEST_F(StepUpTest, CallsToTheClientWaitForTheChangeAndGoOn) {
  const FileDescriptor peer = SteppedUp();
  const std::shared_ptr<BackChannel> back = handler.back_channel;
  TurnUntil([this] { return server->connections() == 0; });
  EXPECT_TRUE(back->connected());
  Outcome waiting, later;
  StartBack(*back, waiting);
  EXPECT_FALSE(waiting);
  const auto next = MakeNext();
  taken->back_channel->Continue(next);
  EXPECT_TRUE(waiting && *waiting);
  StartBack(*back, later);
  EXPECT_TRUE(later && *later);
  EXPECT_EQ(next->calls, 2);
  back->CloseConnection("why not");
  TurnUntil([&] { return !next->closed.empty(); });
  taken->back_channel->HandleLost();
  EXPECT_FALSE(back->connected());
}

TEST_F(StepUpTest, CallsToTheClientFailIfTheChangeFails) {
  const FileDescriptor peer = SteppedUp();
  const std::shared_ptr<BackChannel> back = handler.back_channel;
  Outcome waiting;
  StartBack(*back, waiting);
  taken->back_channel->HandleLost();
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->error(), CallError::kDisconnected);
  EXPECT_FALSE(back->connected());
}

TEST_F(StepUpTest, AConnectionThatIsToCloseDuringTheChangeClosesAfterIt) {
  const FileDescriptor peer = SteppedUp();
  handler.back_channel->CloseConnection("no more");
  Turn(1ms);
  const auto next = MakeNext();
  taken->back_channel->Continue(next);
  EXPECT_EQ(next->closed, "no more");
}

TEST_F(StepUpTest, CreditsThatAreWithdrawnDuringTheChangeAreWithdrawnAfterIt) {
  const FileDescriptor peer = SteppedUp();
  handler.back_channel->Withdraw(5, 2s);
  handler.back_channel->Withdraw(3, 1s);
  const auto next = MakeNext();
  taken->back_channel->Continue(next);
  EXPECT_EQ(next->withdrawn, (std::vector{std::pair(3u, Duration(1s))}));
  handler.back_channel->Withdraw(2, 1s);
  EXPECT_EQ(next->withdrawn.back(), std::pair(2u, Duration(1s)));
}

// ---- the client ----

TEST_F(StepUpTest, AnIdleChannelGivesItsSocketAway) {
  StartServer();
  ConnectClient();
  ASSERT_TRUE(TcpTest::Call<testing::Null>());
  std::optional<ReleasedSocket> released = channel->Release();
  ASSERT_TRUE(released);
  EXPECT_TRUE(released->read_ahead.empty());
  EXPECT_FALSE(channel->connected());
  EXPECT_EQ(TcpTest::Call<testing::Null>().error().transport, CallError::kDisconnected);
  EXPECT_FALSE(channel->Release()) << "the channel has no socket any more";
  channel.reset();
  // The server does not notice, and answers the new owner.
  const std::string call = Call(77);
  ASSERT_EQ(::send(released->socket.native_handle(), call.data(), call.size(), 0), 44);
  TurnUntil([&] { return released->socket.available() == 28; });
}

TEST_F(StepUpTest, AChannelGivesOctetsBehindTheReplyAway) {
  // The test plays the server.
  asio::ip::tcp::acceptor acceptor(loop.context(), {make_address("127.0.0.1"), 0});
  address = acceptor.local_endpoint();
  channel = Connect();
  asio::ip::tcp::socket peer = acceptor.accept();
  Client caller(*channel, loop.buffers(), Xid(9));
  std::optional<ReleasedSocket> released;
  bool done = false;
  Spawn([](Client& with, Channel& from, auto& out, bool& over) -> Task<void> {
    EXPECT_TRUE(co_await with.Call<testing::Null>({}));
    out = from.Release();
    over = true;
  }(caller, *channel, released, done));
  const std::string reply = NullReply(9) + "MPA";
  ::send(peer.native_handle(), reply.data(), reply.size(), 0);
  TurnUntil([&] { return done; });
  ASSERT_TRUE(released);
  EXPECT_EQ(AsText(released->read_ahead), "MPA");
}

TEST_F(StepUpTest, AChannelKeepsItsSocketDuringACall) {
  StartServer();
  ConnectClient();
  CallOutcome<SlowAdd> slow;
  Start<SlowAdd>(1, slow);
  EXPECT_FALSE(channel->Release());
  TurnUntil([this] { return program.waiting.size() == 1; });
  EXPECT_FALSE(channel->Release());
  program.Release();
  TurnUntil([&] { return slow.has_value(); });
  EXPECT_TRUE(*slow);
  EXPECT_TRUE(channel->Release());
}

}  // namespace
}  // namespace penstock::rpc::tcp
