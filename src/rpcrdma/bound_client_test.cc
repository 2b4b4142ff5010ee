// Tests of clients whose limits change once, and that return credits, against the server of this folder.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

#include "rpc/connection_control.h"
#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

using rpc::ConnectionLimits;

class BoundClientTest : public testing::Test {
 protected:
  static constexpr ConnectionLimits kAsked{
      .max_request = 8192, .max_response = 12000, .credits = 6, .padding = 0, .reads = 3};

  BoundClientTest() {
    rig_.server_options.responder.one_receive_first = true;
    rig_.server_options.responder.credits = 16;
    rig_.server_options.max_agreed_size = 16384;
    rig_.client_options.requester.one_receive_first = true;
    rig_.client_options.requester.credits = 10;
    rig_.client_options.max_agreed_size = 12000;
    rig_.handler.set_on_call([this](rpc::Xid xid, const rpc::Peer& peer) {
      if (action_) action_(xid, *peer.control);
      action_ = {};
    });
  }
  ~BoundClientTest() override { rig_.Finish(); }

  // Sends a call during which the server binds the connection, and then binds the client.
  void Bind() {
    ConnectionLimits granted;
    action_ = [&](rpc::Xid xid, rpc::ConnectionControl& control) {
      granted = control.Offer(kAsked);
      control.Bind(xid, granted);
    };
    ASSERT_TRUE(rig_.CallAndCheck({.xid = 1}));
    ASSERT_EQ(granted, kAsked);
    rig_.client->Bind(granted);
  }
  void CallAtOnce(uint32_t count, const TestCall& like = {}) {
    std::vector<CallResult> results(count);
    for (uint32_t i = 0; i < count; ++i) {
      TestCall call = like;
      call.xid = 100 + i;
      rig_.Begin(call, results[i]);
    }
    ASSERT_TRUE(
        rig_.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
    for (const CallResult& result : results) EXPECT_TRUE(*result) << rig_.client->end();
  }
  void ReturnCredits(uint32_t target, std::optional<bool>& result) {
    Spawn([](Task<bool> task, std::optional<bool>& out) -> Task<> {
      const bool value = co_await std::move(task);
      out = value;
    }(rig_.client->ReturnCredits(target), result));
  }
  const RequesterCredits& credits() { return rig_.client->requester().credits(); }
  size_t PostedReceives() { return rig_.network.Inspect(rig_.client->endpoint()).posted_receives; }

  std::function<void(rpc::Xid, rpc::ConnectionControl&)> action_;
  Rig rig_;
};

TEST_F(BoundClientTest, BeginsWithOneReceiveAndOneCredit) {
  rig_.Start();
  EXPECT_EQ(PostedReceives(), 1u);
  // The server grants its credits, since the first call binds nothing.
  ASSERT_TRUE(rig_.CallAndCheck({.xid = 1}));
  EXPECT_EQ(credits().granted(), 10u);
  EXPECT_EQ(credits().limit(), 1u);
  EXPECT_EQ(PostedReceives(), 1u);
  CallAtOnce(20);
  EXPECT_EQ(rig_.handler.most_running(), 1u);
}

TEST_F(BoundClientTest, ABindingChangesTheSizesBothWays) {
  rig_.Start();
  EXPECT_EQ(rig_.client->thresholds().send, 4096u);
  Bind();
  EXPECT_EQ(rig_.client->thresholds().send, 8192u);
  EXPECT_EQ(rig_.client->thresholds().receive, 12000u);
  EXPECT_EQ(PostedReceives(), 6u);
  EXPECT_EQ(credits().limit(), 6u);
  rig_.handler.set_delay(std::chrono::milliseconds(1));
  CallAtOnce(60, {.filler = 8000, .reply_filler = 11800});
  EXPECT_EQ(rig_.handler.most_running(), 6u);
  EXPECT_EQ(rig_.network.stats().reads, 0u) << "all calls fit in a Send";
  EXPECT_EQ(rig_.network.stats().writes, 0u) << "all replies fit in a Send";
}

TEST_F(BoundClientTest, LongerMessagesGoByChunks) {
  rig_.Start();
  Bind();
  CallAtOnce(6, {.filler = 9000, .reply_filler = 13000});
  EXPECT_EQ(rig_.network.stats().reads, 6u);
  EXPECT_EQ(rig_.network.stats().writes, 6u);
}

TEST_F(BoundClientTest, CallsOfTheServerArriveBeforeAndAfterTheBinding) {
  TestHandler back_handler(rig_.world);
  rig_.client_options.back_channel = &back_handler;
  rig_.Start();
  action_ = [](rpc::Xid xid, rpc::ConnectionControl& control) { control.KeepLimitsOpen(xid); };
  ASSERT_TRUE(rig_.CallAndCheck({.xid = 1}));
  Bind();
  const auto call_back = [&] {
    CallResult result;
    const TestCall call{.xid = 7, .filler = 500, .reply_filler = 500};
    Spawn(
        Store(rig_.handler.back_channel()->Call(EncodeCall(rig_.server_provider->buffers(), call), rig_.ShapeOf(call)),
              result));
    ASSERT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
    EXPECT_TRUE(*result && IsReplyTo(call, **result));
  };
  call_back();
  CallAtOnce(12, {.filler = 8000, .reply_filler = 11800});
  call_back();
}

TEST_F(BoundClientTest, ABindingOfAnOrdinaryConnectionKeepsItsSizes) {
  rig_.client_options.requester.one_receive_first = false;
  rig_.Start();
  ASSERT_TRUE(rig_.CallAndCheck({.xid = 1}));
  ConnectionLimits granted;
  action_ = [&](rpc::Xid xid, rpc::ConnectionControl& control) {
    granted = control.Offer(kAsked);
    control.Bind(xid, granted);
  };
  ASSERT_TRUE(rig_.CallAndCheck({.xid = 2}));
  rig_.client->Bind(granted);
  EXPECT_EQ(rig_.client->thresholds().send, 4096u);
  EXPECT_EQ(rig_.client->thresholds().receive, 4096u);
  EXPECT_EQ(credits().limit(), 6u);
  CallAtOnce(20, {.filler = 4000, .reply_filler = 4000});
}

// ---- the return of credits ----

TEST_F(BoundClientTest, ReturnsFreeCreditsByEmptySends) {
  rig_.Start();
  Bind();
  const uint64_t before = rig_.network.stats().sends;
  std::optional<bool> returned;
  ReturnCredits(2, returned);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return returned.has_value(); }));
  EXPECT_TRUE(*returned);
  EXPECT_EQ(credits().limit(), 2u);
  EXPECT_TRUE(rig_.world.Run());
  EXPECT_EQ(rig_.network.stats().sends - before, 4u);
  // The server has not withdrawn them, and grants them again.
  ASSERT_TRUE(rig_.CallAndCheck({.xid = 50}));
  EXPECT_EQ(credits().limit(), 6u);
}

TEST_F(BoundClientTest, ReturnsCreditsInUseAfterTheirReplies) {
  rig_.Start();
  Bind();
  rig_.handler.set_delay(std::chrono::milliseconds(1));
  std::vector<CallResult> results(12);
  for (uint32_t i = 0; i < 12; ++i) rig_.Begin({.xid = 100 + i}, results[i]);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.handler.running() == 6; }));
  std::optional<bool> returned;
  ReturnCredits(1, returned);
  EXPECT_FALSE(returned);
  rig_.handler.back_channel()->Withdraw(1, std::chrono::seconds(1));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return returned.has_value(); }));
  EXPECT_TRUE(*returned);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (const CallResult& result : results) EXPECT_TRUE(*result);
  EXPECT_EQ(credits().limit(), 1u);
  CallAtOnce(10);
  EXPECT_FALSE(rig_.client->lost());
}

TEST_F(BoundClientTest, ALossEndsTheReturn) {
  rig_.Start();
  Bind();
  rig_.handler.set_delay(std::chrono::seconds(100));
  std::vector<CallResult> results(6);
  for (uint32_t i = 0; i < 6; ++i) rig_.Begin({.xid = 100 + i}, results[i]);
  std::optional<bool> returned;
  ReturnCredits(2, returned);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_FALSE(returned);
  rig_.handler.back_channel()->CloseConnection("lost");
  ASSERT_TRUE(rig_.world.RunUntil([&] { return returned.has_value(); }));
  EXPECT_FALSE(*returned);
}

// A client asks by further calls whether the server has all its credits back, since a reply to a call under way may
// have counted a returned credit already.
TEST_F(BoundClientTest, AServerThatHasItsCreditsBackKeepsTheConnection) {
  rig_.Start();
  Bind();
  rig_.handler.set_max_delay(std::chrono::microseconds(50));
  constexpr Duration kLimit = std::chrono::seconds(1);
  uint32_t xid = 1000;
  int most_rounds = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<CallResult> results(8);
    for (CallResult& result : results) rig_.Begin({.xid = ++xid}, result);
    for (uint64_t steps = rig_.world.random().Between(0, 60); steps > 0; --steps) rig_.world.Step();
    rig_.handler.back_channel()->Withdraw(2, kLimit);
    int rounds = 0;
    do {
      std::optional<bool> returned;
      ReturnCredits(2, returned);
      ASSERT_TRUE(rig_.world.RunUntil([&] { return returned.has_value(); }));
      ASSERT_TRUE(*returned);
      ASSERT_TRUE(rig_.CallAndCheck({.xid = ++xid}));
      ++rounds;
    } while (credits().granted() > 2 && rounds < 10);
    EXPECT_EQ(credits().granted(), 2u);
    most_rounds = std::max(most_rounds, rounds);
    rig_.world.RunFor(2 * kLimit);
    ASSERT_FALSE(rig_.client->lost()) << rig_.client->end();
    for (const CallResult& result : results) EXPECT_TRUE(result && *result);
    // The server grants six credits again.
    action_ = [](rpc::Xid call, rpc::ConnectionControl& control) { control.Bind(call, kAsked); };
    ASSERT_TRUE(rig_.CallAndCheck({.xid = ++xid}));
  }
  EXPECT_LE(most_rounds, 5) << "client/nfs4/sess01/link.cc tries so often";
}

// Withdrawals, returns and calls at random times never cost the connection.
TEST_F(BoundClientTest, CreditsFallAndRiseDuringCalls) {
  rig_.Start();
  Bind();
  rig_.handler.set_max_delay(std::chrono::microseconds(200));
  std::vector<CallResult> results(400);
  uint32_t started = 0, next_change = 0;
  std::vector<std::optional<bool>> returns(40);
  size_t returning = 0;
  auto finished = [&] { return std::ranges::count_if(results, [](auto& r) { return r.has_value(); }); };
  while (finished() < 400) {
    for (; started < 400 && started < finished() + 20; ++started) rig_.Begin({.xid = 1000 + started}, results[started]);
    if (finished() >= next_change && returning < returns.size()) {
      next_change += 15;
      const auto target = static_cast<uint32_t>(rig_.world.random().Between(1, 6));
      ReturnCredits(target, returns[returning++]);
      action_ = [this, target](rpc::Xid xid, rpc::ConnectionControl& control) {
        ConnectionLimits limits = kAsked;
        limits.credits = 6;
        if (target == 6) control.Bind(xid, limits);
        rig_.handler.back_channel()->Withdraw(target, std::chrono::seconds(1));
      };
    }
    ASSERT_TRUE(rig_.world.Step());
  }
  for (uint32_t i = 0; i < 400; ++i) ASSERT_TRUE(*results[i]) << i << " " << rig_.client->end();
  EXPECT_TRUE(rig_.world.RunUntil([&] { return returns[returning - 1].has_value(); }));
  EXPECT_FALSE(rig_.client->lost());
}

}  // namespace
}  // namespace penstock::rpcrdma
