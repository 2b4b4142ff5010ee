#include "rpc/call_order.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <optional>
#include <vector>

namespace penstock::rpc {
namespace {

class CallOrderTest : public ::testing::Test {
 protected:
  // Starts a wait, and returns a flag that becomes true when it has ended.
  const bool& Wait(uint32_t xid, uint64_t subject) {
    bool& ended = ended_.emplace_back(false);
    Spawn([](CallOrder& order, Xid waiting, uint64_t file, bool& out) -> Task<void> {
      co_await order.WaitForEarlier(waiting, file);
      out = true;
    }(order_, Xid(xid), subject, ended));
    return ended;
  }

  const bool& AwaitJudgements(uint32_t xid) {
    bool& ended = ended_.emplace_back(false);
    Spawn([](CallOrder& order, Xid waiting, bool& out) -> Task<void> {
      co_await order.AwaitJudgements(waiting);
      out = true;
    }(order_, Xid(xid), ended));
    return ended;
  }

  CallOrder order_;
  std::list<bool> ended_;
};

constexpr uint64_t kFile = 7, kOther = 8;

TEST_F(CallOrderTest, DoesNotWaitWithoutEarlierCalls) { EXPECT_TRUE(Wait(1, kFile)); }

TEST_F(CallOrderTest, WaitsForAnEarlierCallWithUnknownSubject) {
  std::optional<CallOrder::Place> earlier(order_.Enter(Xid(1)));
  const bool& ended = Wait(2, kFile);
  EXPECT_FALSE(ended);
  earlier.reset();
  EXPECT_TRUE(ended);
}

TEST_F(CallOrderTest, WaitsForCallsOnTheSameFileOnly) {
  std::optional<CallOrder::Place> same(order_.Enter(Xid(1)));
  const CallOrder::Place other = order_.Enter(Xid(2));
  const bool& ended = Wait(3, kFile);
  order_.NoteSubject(Xid(2), kOther);
  order_.NoteSubject(Xid(1), kFile);
  EXPECT_FALSE(ended);
  same.reset();
  EXPECT_TRUE(ended);
}

TEST_F(CallOrderTest, DoesNotWaitForLaterCalls) {
  std::optional<CallOrder::Place> first(order_.Enter(Xid(1)));
  const CallOrder::Place waiting = order_.Enter(Xid(2));
  const CallOrder::Place later = order_.Enter(Xid(3));
  const bool& ended = Wait(2, kFile);
  const bool& later_ended = Wait(3, kFile);
  first.reset();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(later_ended) << "it arrived after the call that waited";
}

TEST_F(CallOrderTest, DoesNotWaitForCallsWithoutLatePayloads) {
  const CallOrder::Place earlier = order_.Enter(Xid(1), CallOrder::Lateness::kArguments);
  EXPECT_TRUE(Wait(2, kFile));
}

TEST_F(CallOrderTest, AwaitsTheJudgementsOfAllEarlierCalls) {
  const CallOrder::Place first = order_.Enter(Xid(1));
  std::optional<CallOrder::Place> second(order_.Enter(Xid(2)));
  const CallOrder::Place third = order_.Enter(Xid(3));
  EXPECT_TRUE(AwaitJudgements(1)) << "no call is earlier";
  const bool& ended = AwaitJudgements(3);
  order_.SetJudged(Xid(1));
  EXPECT_FALSE(ended);
  second.reset();
  EXPECT_TRUE(ended) << "the second call is gone";
}

TEST_F(CallOrderTest, OnlyTheFirstUnjudgedCallMayBeJudged) {
  const CallOrder::Place first = order_.Enter(Xid(1));
  const CallOrder::Place second = order_.Enter(Xid(2));
  EXPECT_TRUE(order_.MayJudge(Xid(1)));
  EXPECT_FALSE(order_.MayJudge(Xid(2)));
  order_.SetJudged(Xid(1));
  EXPECT_FALSE(order_.MayJudge(Xid(1))) << "it is judged already";
  EXPECT_TRUE(order_.MayJudge(Xid(2)));
  EXPECT_FALSE(order_.MayJudge(Xid(3))) << "it is not listed";
}

TEST_F(CallOrderTest, WaitersGoOnInTheOrderOfTheirCalls) {
  const CallOrder::Place first = order_.Enter(Xid(1));
  std::list<CallOrder::Place> places;
  std::vector<uint32_t> judged;
  for (uint32_t xid = 2; xid < 6; ++xid) {
    places.push_back(order_.Enter(Xid(xid)));
    Spawn([](CallOrder& order, uint32_t number, std::vector<uint32_t>& out) -> Task<void> {
      co_await order.AwaitJudgements(Xid(number));
      out.push_back(number);
      order.SetJudged(Xid(number));
    }(order_, xid, judged));
  }
  EXPECT_TRUE(judged.empty());
  order_.SetJudged(Xid(1));
  EXPECT_EQ(judged, (std::vector<uint32_t>{2, 3, 4, 5}));
}

TEST_F(CallOrderTest, ACallThatEndsWithoutAJudgementLeavesAGapForTheCallsBehindIt) {
  const CallOrder::Place first = order_.Enter(Xid(1));
  std::optional<CallOrder::Place> lost(order_.Enter(Xid(2)));
  const CallOrder::Place third = order_.Enter(Xid(3));
  lost.reset();
  EXPECT_FALSE(order_.TakeGap(Xid(1))) << "the gap is behind this call";
  order_.SetJudged(Xid(1));
  EXPECT_TRUE(order_.TakeGap(Xid(3)));
  EXPECT_FALSE(order_.TakeGap(Xid(3))) << "the gap was taken";
}

TEST_F(CallOrderTest, ACallThatWasJudgedLeavesNoGap) {
  std::optional<CallOrder::Place> judged(order_.Enter(Xid(1)));
  order_.SetJudged(Xid(1));
  judged.reset();
  EXPECT_FALSE(order_.TakeGap(Xid(2)));
}

TEST_F(CallOrderTest, AdjacentGapsAreOneAndHoldNothingUp) {
  const CallOrder::Place first = order_.Enter(Xid(1));
  for (uint32_t xid = 2; xid < 1000; ++xid) (void)order_.Enter(Xid(xid));
  EXPECT_EQ(order_.size(), 2u);
  order_.SetJudged(Xid(1));
  const CallOrder::Place last = order_.Enter(Xid(1000), CallOrder::Lateness::kArguments);
  EXPECT_TRUE(AwaitJudgements(1000));
  EXPECT_TRUE(order_.MayJudge(Xid(1000)));
  EXPECT_TRUE(order_.TakeGap(Xid(1000)));
  EXPECT_EQ(order_.size(), 2u);
}

TEST_F(CallOrderTest, AJudgementThatNobodyTakesEndsWithItsCall) {
  struct Counted final : CallOrder::Judgement {
    explicit Counted(int& alive) : count(alive) { ++count; }
    ~Counted() override { --count; }
    int& count;
  };
  int alive = 0;
  std::optional<CallOrder::Place> place(order_.Enter(Xid(1)));
  order_.SetJudged(Xid(1), std::make_unique<Counted>(alive));
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(order_.Take(Xid(2)), nullptr);
  place.reset();
  EXPECT_EQ(alive, 0);
  order_.SetJudged(Xid(1), std::make_unique<Counted>(alive));
  EXPECT_EQ(alive, 0) << "no call with this XID is listed";

  place.emplace(order_.Enter(Xid(3)));
  order_.SetJudged(Xid(3), std::make_unique<Counted>(alive));
  const auto taken = order_.Take(Xid(3));
  place.reset();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(order_.Take(Xid(3)), nullptr);
}

TEST_F(CallOrderTest, DoesNotWaitForCallsThatArriveMeanwhile) {
  std::optional<CallOrder::Place> first(order_.Enter(Xid(1)));
  const bool& ended = Wait(2, kFile);
  const CallOrder::Place later = order_.Enter(Xid(3));
  first.reset();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace penstock::rpc
