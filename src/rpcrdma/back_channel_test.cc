// Tests of calls from a server to its clients over the clients' connections: RFC 8167.
#include <gtest/gtest.h>

#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;
using namespace std::chrono_literals;

class BackChannelTest : public testing::Test {
 protected:
  // Starts both sides and makes one call. The server gets the back channel with the first call of the client.
  void Start() {
    rig.Start();
    ASSERT_TRUE(rig.CallAndCheck({.xid = 1000}));
    back = rig.handler.back_channel();
    ASSERT_TRUE(back && back->connected());
  }
  void StartAnswering() {
    rig.client_options.back_channel = &client_handler;
    Start();
  }
  void TearDown() override {
    rig.Finish();
    EXPECT_EQ(client_handler.faults(), 0u);
  }

  void Begin(const TestCall& call, CallResult& result) {
    Spawn(Store(back->Call(EncodeCall(rig.server_provider->buffers(), call), rig.ShapeOf(call)), result));
  }
  Result<rpc::Message, CallError> Call(const TestCall& call) {
    CallResult result;
    Begin(call, result);
    EXPECT_TRUE(rig.world.RunUntil([&] { return result.has_value(); })) << "the call did not end";
    if (!result) return std::unexpected(CallError::kMalformed);
    return *std::move(result);
  }
  testing::AssertionResult CallAndCheck(const TestCall& call) {
    Result<rpc::Message, CallError> reply = Call(call);
    if (!reply) return testing::AssertionFailure() << "error " << static_cast<int>(reply.error());
    return IsReplyTo(call, *reply);
  }

  Rig rig{5};
  TestHandler client_handler{rig.world};
  std::shared_ptr<rpc::BackChannel> back;
};

TEST_F(BackChannelTest, CallsTheClientThatHasCalled) {
  StartAnswering();
  EXPECT_TRUE(CallAndCheck({.xid = 1, .filler = 100, .reply_filler = 200}));
  EXPECT_EQ(client_handler.calls(), 1u);
  EXPECT_EQ(client_handler.back_channel(), nullptr) << "a client needs no back channel: it calls over its own channel";
}

TEST_F(BackChannelTest, AllHoldersShareOneSequenceOfXids) {
  StartAnswering();
  const rpc::Xid first = back->xids().Next();
  const rpc::Xid second = rig.handler.back_channel()->xids().Next();
  EXPECT_NE(first, second);
}

TEST_F(BackChannelTest, ObeysTheCreditsThatTheClientGrants) {
  rig.client_options.responder.credits = 2;
  client_handler.set_max_delay(100us);
  StartAnswering();
  std::vector<CallResult> results(30);
  for (uint32_t i = 0; i < results.size(); ++i) Begin({.xid = i}, results[i]);
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (CallResult& result : results) EXPECT_TRUE(*result);
  EXPECT_EQ(client_handler.most_running(), 2u);
}

// RFC 8167 §5.3
TEST_F(BackChannelTest, AClientWithoutChunkSupportRefusesCallsWithChunks) {
  rig.server_options.requester.chunks = true;
  StartAnswering();
  EXPECT_EQ(Call({.xid = 1, .arguments = {5000}}).error(), CallError::kRefused);
  EXPECT_EQ(Call({.xid = 2, .results = {5000}}).error(), CallError::kRefused);
  EXPECT_EQ(Call({.xid = 3, .filler = 20'000}).error(), CallError::kRefused);
  EXPECT_EQ(client_handler.calls(), 0u);
  EXPECT_TRUE(CallAndCheck({.xid = 4}));
  EXPECT_TRUE(back->connected());
}

// RFC 8167 §6: such a client does not accept calls. If it receives a call, the call does no harm.
TEST_F(BackChannelTest, CallsToAClientWithoutABackChannelTimeOut) {
  rig.server_options.requester.call_timeout = 1s;
  Start();
  EXPECT_EQ(Call({.xid = 1}).error(), CallError::kTimedOut);
  EXPECT_TRUE(back->connected());
  EXPECT_TRUE(rig.CallAndCheck({.xid = 1}));
}

TEST_F(BackChannelTest, DropsALateReply) {
  rig.server_options.requester.call_timeout = 1ms;
  client_handler.set_max_delay(10s);
  StartAnswering();
  EXPECT_EQ(Call({.xid = 1}).error(), CallError::kTimedOut);
  ASSERT_TRUE(rig.world.RunUntil([&] { return client_handler.calls() == 1; }));
  client_handler.set_max_delay(Duration::zero());
  EXPECT_TRUE(CallAndCheck({.xid = 2}));
}

TEST_F(BackChannelTest, CallsEndWithTheConnection) {
  client_handler.set_delay(1h);
  StartAnswering();
  std::vector<CallResult> results(5);  // the requester sends the first; the others wait for its credit
  for (uint32_t i = 0; i < results.size(); ++i) Begin({.xid = i}, results[i]);
  ASSERT_TRUE(rig.world.RunUntil([&] { return client_handler.running() == 1; }));
  rig.client.reset();
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (CallResult& result : results) EXPECT_EQ(result->error(), CallError::kDisconnected);
  EXPECT_FALSE(back->connected());
}

TEST_F(BackChannelTest, ACallToADestroyedClientFails) {
  StartAnswering();
  CallResult result;
  Begin({.xid = 1}, result);
  rig.client.reset();
  ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_EQ(result->error(), CallError::kDisconnected);
  EXPECT_EQ(client_handler.calls(), 0u);
}

TEST_F(BackChannelTest, OutlivesItsConnectionAndItsServer) {
  StartAnswering();
  rig.client.reset();
  ASSERT_TRUE(rig.world.RunUntil([&] { return rig.server->connections() == 0; }));
  EXPECT_FALSE(back->connected());
  EXPECT_EQ(Call({.xid = 1}).error(), CallError::kDisconnected);
  rig.Finish();
  EXPECT_EQ(Call({.xid = 2}).error(), CallError::kDisconnected);
}

// Makes calls in both directions, and loses the connection at step `lose_at` of the network. Returns the number of
// steps.
uint64_t RunWithLoss(uint64_t lose_at) {
  Rig rig(23);
  rig.network.faults().lose_at = lose_at;
  TestHandler client_handler(rig.world);
  client_handler.set_max_delay(30us);
  rig.handler.set_max_delay(30us);
  rig.client_options.back_channel = &client_handler;
  rig.StartServer();
  if (rig.Connect() && rig.Call({.xid = 1})) {
    const std::shared_ptr<rpc::BackChannel> back = rig.handler.back_channel();
    std::vector<CallResult> forth(6), backwards(6);
    for (uint32_t i = 0; i < forth.size(); ++i) {
      rig.Begin({.xid = i + 10, .filler = i * 1000}, forth[i]);
      const TestCall call{.xid = i + 10, .filler = i * 100};
      Spawn(Store(back->Call(EncodeCall(rig.server_provider->buffers(), call), rig.ShapeOf(call)), backwards[i]));
    }
    const auto over = [](const CallResult& result) { return result.has_value(); };
    EXPECT_TRUE(
        rig.world.RunUntil([&] { return std::ranges::all_of(forth, over) && std::ranges::all_of(backwards, over); }));
    for (std::vector<CallResult>* results : {&forth, &backwards}) {
      for (CallResult& result : *results) {
        EXPECT_TRUE(!result || *result || result->error() == CallError::kDisconnected);
      }
    }
  }
  const uint64_t steps = rig.network.steps();
  rig.Finish();
  return steps;
}

TEST(BackChannelLoss, EveryCallEndsIfTheConnectionIsLostAtAnyStep) {
  const uint64_t steps = RunWithLoss(0);
  EXPECT_GT(steps, 30u);
  for (uint64_t step = 1; step <= steps && !testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE("lost at step " + std::to_string(step));
    RunWithLoss(step);
  }
}

}  // namespace
}  // namespace penstock::rpcrdma
