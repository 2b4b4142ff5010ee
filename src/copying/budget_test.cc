#include "copying/budget.h"

#include <gtest/gtest.h>

#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/test_loop.h"

namespace penstock::copying {
namespace {

// Takers of one budget, by their names. Each keeps what it gets until the test ends it.
class BudgetTest : public testing::Test {
 protected:
  void Take(std::string name, uint64_t units) {
    Spawn([](BudgetTest& test, std::string who, uint64_t count) -> Task<void> {
      Budget::Share share = co_await test.budget.Take(count);
      test.have.push_back(who);
      test.shares.emplace_back(std::move(who), std::move(share));
    }(*this, std::move(name), units));
  }
  void GiveBack(const std::string& name) {
    std::erase(have, name);
    shares.remove_if([&](const auto& each) { return each.first == name; });
  }

  Budget budget{10};
  std::vector<std::string> have;  // in the order in which they have got their units
  std::list<std::pair<std::string, Budget::Share>> shares;
};

using Names = std::vector<std::string>;

TEST_F(BudgetTest, GivesWhatIsFreeAtOnce) {
  Take("a", 4);
  Take("b", 6);
  EXPECT_EQ(have, (Names{"a", "b"}));
  EXPECT_EQ(budget.free(), 0u);
  GiveBack("a");
  EXPECT_EQ(budget.free(), 4u);
  GiveBack("b");
  EXPECT_EQ(budget.free(), 10u);
}

TEST_F(BudgetTest, ATakerWaitsUntilEnoughIsFree) {
  Take("a", 4);
  Take("b", 4);
  Take("c", 7);
  EXPECT_EQ(have, (Names{"a", "b"}));
  EXPECT_EQ(budget.free(), 2u);
  GiveBack("a");
  EXPECT_EQ(have, (Names{"b"})) << "six units are free, not seven";
  GiveBack("b");
  EXPECT_EQ(have, (Names{"c"}));
  EXPECT_EQ(budget.free(), 3u);
}

TEST_F(BudgetTest, ASmallTakerDoesNotOvertakeALargeOne) {
  Take("a", 6);
  Take("large", 8);
  Take("small", 1);
  EXPECT_EQ(have, (Names{"a"}));
  GiveBack("a");
  EXPECT_EQ(have, (Names{"large", "small"}));
  EXPECT_EQ(budget.free(), 1u);
}

TEST_F(BudgetTest, WhatIsGivenBackGoesToAllForWhomItIsEnough) {
  Take("a", 10);
  for (const char* const name : {"b", "c", "d"}) Take(name, 4);
  GiveBack("a");
  EXPECT_EQ(have, (Names{"b", "c"}));
  GiveBack("b");
  EXPECT_EQ(have, (Names{"c", "d"}));
}

TEST_F(BudgetTest, ATakerThatAsksForMoreThanThereIsGetsAll) {
  Take("a", 1);
  Take("huge", 1000);
  Take("b", 10);
  EXPECT_EQ(have, (Names{"a"}));
  GiveBack("a");
  EXPECT_EQ(have, (Names{"huge"}));
  EXPECT_EQ(budget.free(), 0u);
  GiveBack("huge");
  EXPECT_EQ(have, (Names{"b"}));
  GiveBack("b");
  EXPECT_EQ(budget.free(), 10u);
}

TEST_F(BudgetTest, AShareThatIsMovedIsGivenBackOnce) {
  {
    Take("a", 4);
    const Budget::Share moved = std::move(shares.front().second);
    GiveBack("a");
    EXPECT_EQ(budget.free(), 6u);
  }
  EXPECT_EQ(budget.free(), 10u);
}

class RateLimitTest : public testing::Test {
 protected:
  // Waits `times` times for `count` octets, one after another, and returns the time that this takes.
  Duration Wait(uint64_t rate, int times, uint64_t count) {
    RateLimit limit(loop, rate);
    const TimePoint began = loop.Now();
    bool ended = false;
    Spawn([](RateLimit& of, int repetitions, uint64_t octets, bool& out) -> Task<void> {
      for (int i = 0; i < repetitions; ++i) co_await of.Wait(octets);
      out = true;
    }(limit, times, count, ended));
    EXPECT_TRUE(TurnUntil(loop, [&] { return ended; }));
    return loop.Now() - began;
  }

  Loop loop;
};

TEST_F(RateLimitTest, LetsTheFirstOctetsGoAtOnceAndTheOthersAtTheRate) {
  // 4 times 25 octets after the first ones, at 1000 octets a second.
  EXPECT_GE(Wait(1000, 5, 25), std::chrono::milliseconds(100));
}

TEST_F(RateLimitTest, ZeroIsNoLimit) {
  RateLimit limit(loop, 0);
  bool ended = false;
  Spawn([](RateLimit& of, bool& out) -> Task<void> {
    for (int i = 0; i < 1000; ++i) co_await of.Wait(1 << 30);
    out = true;
  }(limit, ended));
  EXPECT_TRUE(ended) << "without a turn of the loop";
}

}  // namespace
}  // namespace penstock::copying
