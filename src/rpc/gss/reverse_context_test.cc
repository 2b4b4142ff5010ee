#include "rpc/gss/reverse_context.h"

#include "rpc/gss/callback_acceptor.h"
#include "rpc/gss/test_secured_channel.h"

namespace penstock::rpc::gss {
namespace {

using rpc::testing::Echo;
using rpc::testing::Fail;
using rpc::testing::WhoAmI;

// The server calls the client's program, under the context that the client has made with the server.
class ReverseContextTest : public SecuredChannelTest {
 protected:
  // Delivers calls to the client.
  class ToClient final : public BackChannel {
   public:
    ToClient(ReverseContextTest& test, const Peer& to) : BackChannel(to), test_(test) {}
    Task<penstock::Result<Message, CallError>> Call(Message call, ReplyShape shape) override {
      test_.reverse_calls.push_back(call);
      Message reply = co_await test_.client_dispatcher.HandleCall(std::move(call), test_.peer);
      if (reply.empty()) co_return std::unexpected(CallError::kDisconnected);
      EXPECT_LE(reply.flat_size(), shape.max_stream);
      if (test_.spoil_reverse_replies) reply = test_.Changed(reply, 4);
      co_return reply;
    }
    void CloseConnection(std::string) override {}

   private:
    ReverseContextTest& test_;
  };

  ReverseContextTest() {
    client_dispatcher.Add(client_program);
    client_dispatcher.Offer(callbacks.flavor());
    EXPECT_EQ(Asked(), 1000u);
  }

  // The protection that the server gets: the other direction of the client's context.
  std::shared_ptr<ReverseProtection> Reverse(const std::string& initiator = "toy:alice") {
    const auto handle = callbacks.Adopt(*context->current(), "server");
    EXPECT_TRUE(handle);
    return acceptor.Reverse(context->current()->handle, *handle, {.name = initiator, .display = initiator});
  }
  Message NewCall(uint32_t procedure, const W& arguments, GssService service) {
    const ClientCredential credential(service);
    xdr::Encoder encoder(pool);
    EncodeCallHeader(encoder, {Xid(9), rpc::testing::kTestProgram, 3, procedure, credential.auth(), {}});
    for (const uint32_t word : arguments) encoder.U32(word);
    return encoder.Finish();
  }
  penstock::Result<Message, CallError> CallClient(ReverseProtection& protection, Message call) {
    std::optional<penstock::Result<Message, CallError>> reply;
    Spawn([](ReverseProtection& by, BackChannel& over, Message message, auto& out) -> Task<void> {
      out.emplace(co_await by.Call(over, std::move(message), {.max_stream = 3000, .results = {}}));
    }(protection, to_client, std::move(call), reply));
    EXPECT_TRUE(reply);
    return *std::move(reply);
  }

  CallbackAcceptor callbacks{client_clock, nullptr};
  rpc::testing::TestProgram client_program;
  Dispatcher client_dispatcher;
  std::vector<Message> reverse_calls;
  bool spoil_reverse_replies = false;
  ToClient to_client{*this, peer};
};

TEST_F(ReverseContextTest, CallsTheClientUnderEveryService) {
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  for (const GssService service : kServices) {
    const auto reply = CallClient(*protection, NewCall(Echo::kNumber, {3, 0x61626300}, service));
    ASSERT_TRUE(reply) << static_cast<int>(service);
    EXPECT_EQ(StatusOf(*reply), AcceptStatus::SUCCESS);
    const W words = WordsOf(*reply);
    EXPECT_EQ(W(words.end() - 2, words.end()), (W{3, 0x61626300}));
    EXPECT_EQ(client_program.last.service, service);
    EXPECT_EQ(client_program.last.initiator->name, "server");
  }
}

TEST_F(ReverseContextTest, NumbersItsCallsApartFromThoseOfTheClient) {
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  EXPECT_TRUE(CallClient(*protection, NewCall(WhoAmI::kNumber, {}, GssService::kIntegrity)));
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_TRUE(CallClient(*protection, NewCall(WhoAmI::kNumber, {}, GssService::kIntegrity)));
}

TEST_F(ReverseContextTest, PassesErrorsOfTheProgramOn) {
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  const auto reply = CallClient(*protection, NewCall(Fail::kNumber, {}, GssService::kPrivacy));
  ASSERT_TRUE(reply);
  EXPECT_EQ(StatusOf(*reply), AcceptStatus::SYSTEM_ERR);
}

TEST_F(ReverseContextTest, TheClientDropsAReplay) {
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  EXPECT_TRUE(CallClient(*protection, NewCall(WhoAmI::kNumber, {}, GssService::kIntegrity)));
  std::optional<Message> reply;
  Spawn([](Dispatcher& dispatcher, Message call, const Peer& from, std::optional<Message>& out) -> Task<void> {
    out = co_await dispatcher.HandleCall(std::move(call), from);
  }(client_dispatcher, reverse_calls.back(), peer, reply));
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->empty());
}

TEST_F(ReverseContextTest, RejectsRepliesThatAreNotAuthentic) {
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  spoil_reverse_replies = true;
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    const auto reply = CallClient(*protection, NewCall(WhoAmI::kNumber, {}, service));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error(), CallError::kNotAuthentic);
  }
}

TEST_F(ReverseContextTest, BelongsToTheInitiatorOfTheContext) {
  EXPECT_FALSE(Reverse("toy:bob"));
  EXPECT_FALSE(acceptor.Reverse(AsBytes(std::string_view("unknown")), {}, {.name = "toy:alice", .display = {}}));
}

// The client takes one that comes again for a replay, and closes the connection.
TEST_F(ReverseContextTest, GoesOnWithTheNumbersOfAnEarlierSession) {
  const auto handle = callbacks.Adopt(*context->current(), "server");
  ASSERT_TRUE(handle);
  const GssInitiator alice_{.name = "toy:alice", .display = {}};
  for (int session = 0; session < 3; ++session) {
    const auto protection = acceptor.Reverse(context->current()->handle, *handle, alice_);
    ASSERT_TRUE(protection);
    EXPECT_TRUE(CallClient(*protection, NewCall(WhoAmI::kNumber, {}, GssService::kIntegrity))) << session;
  }
}

// RFC 5531 §8.2: a credential has at most 400 octets.
TEST_F(ReverseContextTest, RefusesHandlesThatFitIntoNoCredential) {
  const GssInitiator alice_{.name = "toy:alice", .display = {}};
  const std::vector<std::byte> handle(kLongestHandle + 1);
  const ConstBytes all(handle);
  EXPECT_FALSE(acceptor.Reverse(context->current()->handle, all, alice_));
  const auto protection = acceptor.Reverse(context->current()->handle, all.first(kLongestHandle), alice_);
  ASSERT_TRUE(protection);
  const auto reply = CallClient(*protection, NewCall(WhoAmI::kNumber, {}, GssService::kPrivacy));
  EXPECT_FALSE(reply) << "the client does not know the handle";
}

TEST_F(ReverseContextTest, KnowsWhenTheContextEnds) {
  initiator.lifetime = mechanism.lifetime = 1h;
  context->Close();
  EXPECT_EQ(Asked(), 1000u);
  const auto protection = Reverse();
  ASSERT_TRUE(protection);
  EXPECT_EQ(protection->expires(), clock.now + 1h);
}

TEST_F(ReverseContextTest, EndsWithTheContext) {
  initiator.lifetime = mechanism.lifetime = 1h;
  context->Close();
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_TRUE(Reverse());
  const std::vector<std::byte> handle = context->current()->handle;
  clock.now += 2h;
  EXPECT_FALSE(acceptor.Reverse(handle, {}, {.name = "toy:alice", .display = {}}));
}

TEST_F(ReverseContextTest, TheServerCannotMakeAContextWithTheClient) {
  testing::ToyInitiator toy("server");
  testing::Initiator server(toy, pool);
  std::optional<Message> reply;
  Spawn([](Dispatcher& dispatcher, Message call, const Peer& from, std::optional<Message>& out) -> Task<void> {
    out = co_await dispatcher.HandleCall(std::move(call), from);
  }(client_dispatcher, server.Create(Xid(5), To(0)), peer, reply));
  ASSERT_TRUE(reply);
  const auto results = server.HandleCreated(*reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, kBadMechanism);
}

}  // namespace
}  // namespace penstock::rpc::gss
