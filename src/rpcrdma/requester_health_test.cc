// Tests of how a requester probes its peer and ends the connection with a hung peer: RFC 8267 §6.7.2.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "rpcrdma/requester_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;
using std::chrono::seconds;

class HealthTest : public RequesterTest {
 protected:
  void SetUp() override {
    rig_.client_options.requester.health = {
        .probe = [](BufferPool& buffers, rpc::Xid xid) { return EncodeCall(buffers, {.xid = xid.value()}); },
        .after = seconds(15),
        .limit = seconds(10),
        .patience = seconds(200)};
    Connect();
  }
  void Answer(uint32_t xid, uint32_t credits) { Send(Words({xid, 1, credits, kMsg, 0, 0, 0, xid, 1, 0, 0})); }
  // Completes one call, whose reply grants `credits`.
  void Grant(uint32_t credits) {
    CallResult result;
    Begin({.xid = kXid - 1}, result);
    Answer(kXid - 1, credits);
    ASSERT_TRUE(result && *result);
    calls_.clear();
  }
  // Waits for a probe, and answers it.
  void AnswerProbe(uint32_t credits) {
    calls_.clear();
    rig_.world.RunFor(seconds(19));
    ASSERT_EQ(calls_.size(), 1u);
    Answer(XidOfCall(0), credits);
  }
  uint32_t XidOfCall(size_t n) const { return LoadBig<uint32_t>(calls_.at(n).data()); }
  // Starts `count` calls. Returns the number of messages that the peer receives within a second.
  size_t Arriving(uint32_t count, std::vector<CallResult>& results) {
    results.resize(count);
    for (uint32_t i = 0; i < count; ++i) rig_.Begin({.xid = kXid + i}, results[i]);
    rig_.world.RunFor(seconds(1));
    return calls_.size();
  }
};

TEST_F(HealthTest, DisconnectsAHungPeer) {
  Grant(10);
  std::vector<CallResult> results;
  ASSERT_EQ(Arriving(2, results), 2u);
  rig_.world.RunFor(seconds(18));
  ASSERT_EQ(calls_.size(), 3u) << "the third message is a probe";
  EXPECT_FALSE(rig_.client->lost());
  rig_.world.RunFor(seconds(10));
  EXPECT_TRUE(rig_.client->lost());
  EXPECT_EQ(rig_.client->end(), "the peer does not answer");
  for (CallResult& result : results) EXPECT_EQ(result->error(), CallError::kDisconnected);
}

// The requester has no credit for a probe, and the peer may just be busy.
TEST_F(HealthTest, KeepsAPeerWithOneCreditDuringASlowCall) {
  Grant(1);
  std::vector<CallResult> results;
  ASSERT_EQ(Arriving(2, results), 1u);
  rig_.world.RunFor(seconds(150));
  EXPECT_EQ(calls_.size(), 1u) << "a probe would exceed the credits";
  ASSERT_FALSE(rig_.client->lost());
  Answer(kXid, 1);
  ASSERT_TRUE(results[0] && *results[0]);
  rig_.world.RunFor(seconds(150));
  ASSERT_FALSE(rig_.client->lost());
  Answer(kXid + 1, 1);
  EXPECT_TRUE(results[1] && *results[1]);
}

TEST_F(HealthTest, DisconnectsAHungPeerWithOneCreditAfterTheLongerLimit) {
  Grant(1);
  std::vector<CallResult> results;
  ASSERT_EQ(Arriving(1, results), 1u);
  rig_.world.RunFor(seconds(205));
  EXPECT_TRUE(rig_.client->lost());
  EXPECT_EQ(rig_.client->end(), "the peer does not answer");
  EXPECT_EQ(results[0]->error(), CallError::kDisconnected);
}

TEST_F(HealthTest, DisconnectsAPeerThatNeverRepliedAfterTheLongerLimit) {
  std::vector<CallResult> results;
  ASSERT_EQ(Arriving(1, results), 1u);
  rig_.world.RunFor(seconds(150));
  EXPECT_EQ(calls_.size(), 1u) << "the requester has no credit for a probe";
  EXPECT_FALSE(rig_.client->lost());
  rig_.world.RunFor(seconds(55));
  EXPECT_TRUE(rig_.client->lost());
  EXPECT_EQ(results[0]->error(), CallError::kDisconnected);
}

TEST_F(HealthTest, ProbesAndKeepsAnIdleConnection) {
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(AnswerProbe(10)) << i;
  EXPECT_FALSE(rig_.client->lost());
  EXPECT_EQ(rig_.client->requester().credits().in_flight(), 0u);
}

TEST_F(HealthTest, DisconnectsAnIdlePeerThatDoesNotReply) {
  rig_.world.RunFor(seconds(30));
  EXPECT_TRUE(rig_.client->lost());
}

TEST_F(HealthTest, WaitsForASlowCallWhileThePeerAnswersProbes) {
  Grant(2);
  std::vector<CallResult> results;
  ASSERT_EQ(Arriving(1, results), 1u);
  for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(AnswerProbe(2)) << i;
  ASSERT_FALSE(results[0]);
  Answer(kXid, 2);
  ASSERT_TRUE(results[0] && *results[0]);
}

TEST_F(HealthTest, ReservesTheLastCreditForTheProbe) {
  Grant(3);
  std::vector<CallResult> results;
  EXPECT_EQ(Arriving(5, results), 2u);
  rig_.world.RunFor(seconds(18));
  ASSERT_EQ(calls_.size(), 3u);
  const uint32_t probe = XidOfCall(2);
  EXPECT_TRUE(probe < kXid || probe >= kXid + 5);
  Answer(probe, 3);
  EXPECT_EQ(calls_.size(), 3u);
  for (uint32_t i = 0; i < 5; ++i) {
    Answer(kXid + i, 3);
    EXPECT_TRUE(results[i] && *results[i]) << i;
    EXPECT_LE(calls_.size() - i - 2, 2u) << "calls without a reply";
  }
}

TEST_F(HealthTest, ASingleCreditServesBothCallsAndProbes) {
  Grant(1);
  std::vector<CallResult> results;
  EXPECT_EQ(Arriving(3, results), 1u);
  for (uint32_t i = 0; i < 3; ++i) {
    Answer(kXid + i, 1);
    EXPECT_TRUE(results[i] && *results[i]) << i;
  }
  ASSERT_NO_FATAL_FAILURE(AnswerProbe(1)) << "without calls, the credit is free for a probe";
  EXPECT_FALSE(rig_.client->lost());
}

}  // namespace
}  // namespace penstock::rpcrdma
