#include "idmap/lookups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/signal.h"
#include "base/test_log.h"
#include "base/test_loop.h"
#include "idmap/test_database.h"
#include "rdma/sim/world.h"

namespace penstock::idmap {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class LookupsTest : public testing::Test {
 protected:
  using Result = std::optional<Answer>;  // empty while the caller waits

  void Make(const Lookups::Settings& settings) {
    lookups.emplace(database.database(), world, database.run(), settings);
  }
  // Begins a call. `caller` outlives it.
  const Result& Begin(Query query, Caller& caller) {
    Result& result = results_.emplace_back();
    Spawn([](Lookups& of, Query what, Caller& who, Result& to) -> Task<> {
      to = co_await of.Find(std::move(what), who);
    }(*lookups, std::move(query), caller, result));
    return result;
  }
  const Result& Begin(Query query, uint64_t host = 1) {
    return Begin(std::move(query), callers_.emplace_back(Caller{.client = {.host = host, .connection = host}}));
  }
  // A caller that does not wait, or whose wait ends without time.
  Answer Find(Query query, uint64_t host = 1) { return Begin(std::move(query), host).value(); }
  std::optional<std::string> NameOf(uint32_t id) {
    const Answer found = Find(ById(id));
    return found && *found ? std::optional((*found)->name) : std::nullopt;
  }

  rdma::sim::World world{1};
  TestDatabase database;
  std::optional<Lookups> lookups{std::in_place, database.database(), world, database.run()};

 private:
  std::list<Caller> callers_;
  std::list<Result> results_;
};

TEST_F(LookupsTest, FindsUsersAndGroupsInBothDirections) {
  EXPECT_EQ(Find(ById(7)), (Account{"anna", 7}));
  EXPECT_EQ(Find(ByName("anna")), (Account{"anna", 7}));
  EXPECT_EQ(Find(ById(8, Kind::kGroup)), (Account{"staff", 8}));
  EXPECT_EQ(Find(ByName("staff", Kind::kGroup)), (Account{"staff", 8}));
  EXPECT_EQ(Find(ByName("staff")), Answer(std::nullopt));
}

TEST_F(LookupsTest, RemembersAccountsForAWhile) {
  EXPECT_EQ(NameOf(7), "anna");
  world.RunFor(minutes(4));
  database.users = {{"berta", 7}};
  EXPECT_EQ(NameOf(7), "anna");
  EXPECT_EQ(database.asked, 1u);
  world.RunFor(minutes(2));
  EXPECT_EQ(NameOf(7), "berta");
}

TEST_F(LookupsTest, TellsWhatItRemembersWithoutALookup) {
  EXPECT_EQ(lookups->Known(ById(7)), std::nullopt);
  EXPECT_EQ(database.asked, 0u);
  EXPECT_EQ(NameOf(7), "anna");
  EXPECT_EQ(NameOf(9), std::nullopt);
  EXPECT_EQ(lookups->Known(ById(7)).value(), (Account{"anna", 7}));
  EXPECT_EQ(lookups->Known(ById(9)).value(), std::nullopt);
  world.RunFor(minutes(6));
  EXPECT_EQ(lookups->Known(ById(7)), std::nullopt);
}

TEST_F(LookupsTest, RemembersForAShorterTimeThatThereIsNone) {
  EXPECT_EQ(Find(ByName("carl")), Answer(std::nullopt));
  EXPECT_EQ(Find(ByName("carl")), Answer(std::nullopt));
  EXPECT_EQ(database.asked, 1u);
  database.users["carl"] = 9;
  world.RunFor(minutes(2));
  EXPECT_EQ(Find(ByName("carl")), (Account{"carl", 9}));
}

TEST_F(LookupsTest, RemembersNoMoreThanTheLimits) {
  Make({.known = 3, .unknown = 2});
  for (uint32_t i = 0; i < 50; ++i) database.users["user" + std::to_string(i)] = 100 + i;
  for (uint32_t i = 0; i < 50; ++i) {
    Find(ById(100 + i));
    Find(ById(1000 + i));
    Find(ByName("unknown" + std::to_string(i)));
  }
  EXPECT_EQ(lookups->remembered(), 3u + 2 + 2);
}

// A client that sends one unknown name after the other costs others no look-ups.
TEST_F(LookupsTest, UnknownNamesDisplaceNoAccounts) {
  Make({.known = 4, .unknown = 4});
  EXPECT_EQ(Find(ByName("anna")), (Account{"anna", 7}));
  for (int i = 0; i < 100; ++i) Find(ByName("unknown" + std::to_string(i)), 2);
  const size_t before = database.asked;
  EXPECT_EQ(Find(ByName("anna")), (Account{"anna", 7}));
  EXPECT_EQ(database.asked, before);
}

TEST_F(LookupsTest, CallersWithTheSameQuestionShareALookup) {
  database.hangs = true;
  const Result& first = Begin(ById(7), 1);
  const Result& second = Begin(ById(7), 2);
  EXPECT_FALSE(first || second);
  EXPECT_EQ(lookups->under_way(), 1u);
  database.Answer();
  EXPECT_EQ(database.asked, 1u);
  EXPECT_EQ(first, (Account{"anna", 7}));
  EXPECT_EQ(second, (Account{"anna", 7}));
  EXPECT_EQ(lookups->under_way(), 0u);
}

TEST_F(LookupsTest, StopsWaitingForADatabaseThatHangs) {
  database.hangs = true;
  const Result& waiting = Begin(ById(7));
  world.RunFor(milliseconds(1999));
  EXPECT_FALSE(waiting);
  world.RunFor(milliseconds(1));
  EXPECT_EQ(waiting, Answer(std::unexpected(NoAnswer{ETIMEDOUT})));
  // The look-up goes on, and its answer is remembered.
  database.Answer();
  EXPECT_EQ(NameOf(7), "anna");
  EXPECT_EQ(database.asked, 1u);
}

TEST_F(LookupsTest, NobodyWaitsForALookupThatHasHungForLong) {
  database.hangs = true;
  Begin(ById(7), 1);
  world.RunFor(milliseconds(1500));
  const Result& later = Begin(ById(7), 2);
  EXPECT_FALSE(later);
  world.RunFor(milliseconds(500));
  EXPECT_TRUE(later);
  EXPECT_TRUE(Begin(ById(7), 3));  // at once
}

TEST_F(LookupsTest, CallersWaitOnlyBrieflyWhileNoLookupEnds) {
  database.hangs = true;
  Begin(ById(7));
  world.RunFor(seconds(2));
  const Result& other = Begin(ById(8));
  EXPECT_FALSE(other);
  world.RunFor(milliseconds(100));
  EXPECT_TRUE(other);
  // Some answers come: callers wait again.
  database.AnswerOne();
  const Result& patient = Begin(ById(9));
  world.RunFor(milliseconds(1999));
  EXPECT_FALSE(patient);
  database.Answer();
  EXPECT_EQ(patient, Answer(std::nullopt));
}

// An idle time is no outage.
TEST_F(LookupsTest, WaitsAfterAnIdleTime) {
  EXPECT_EQ(NameOf(7), "anna");
  world.RunFor(minutes(10));
  database.hangs = true;
  const Result& waiting = Begin(ById(9));
  world.RunFor(milliseconds(1999));
  EXPECT_FALSE(waiting);
  database.Answer();
  EXPECT_TRUE(waiting);
}

TEST_F(LookupsTest, ARequestWithManyNamesWaitsOnce) {
  database.hangs = true;
  Caller caller;
  Begin(ById(100), caller);
  world.RunFor(milliseconds(1500));
  database.AnswerOne();
  const Result& second = Begin(ById(101), caller);
  EXPECT_FALSE(second);
  world.RunFor(milliseconds(500));
  EXPECT_TRUE(second);
  database.AnswerOne();
  EXPECT_TRUE(Begin(ById(102), caller));
}

TEST_F(LookupsTest, NamesOfIdsRemainInUseDuringAnOutage) {
  EXPECT_EQ(NameOf(7), "anna");
  EXPECT_EQ(Find(ByName("anna")), (Account{"anna", 7}));
  world.RunFor(minutes(6));
  database.hangs = true;
  const Result& by_id = Begin(ById(7));
  const Result& by_name = Begin(ByName("anna"));
  world.RunFor(seconds(2));
  EXPECT_EQ(by_id, (Account{"anna", 7}));
  EXPECT_EQ(by_name, Answer(std::unexpected(NoAnswer{ETIMEDOUT})));
  world.RunFor(minutes(70));
  EXPECT_EQ(Find(ById(7)), Answer(std::unexpected(NoAnswer{ETIMEDOUT})));
}

// A failure says nothing about the name.
TEST_F(LookupsTest, DoesNotRememberFailures) {
  database.fails = true;
  EXPECT_EQ(Find(ByName("anna")), Answer(std::unexpected(NoAnswer{EIO})));
  database.fails = false;
  EXPECT_EQ(Find(ByName("anna")), (Account{"anna", 7}));
}

TEST_F(LookupsTest, NamesOfIdsRemainInUseAfterFailures) {
  EXPECT_EQ(NameOf(7), "anna");
  world.RunFor(minutes(6));
  database.fails = true;
  EXPECT_EQ(NameOf(7), "anna");
  EXPECT_EQ(Find(ById(100)), Answer(std::unexpected(NoAnswer{EIO})));
}

TEST_F(LookupsTest, LimitsTheLookupsUnderWayAndLeavesRoomForOtherHosts) {
  Make({.under_way = 16});
  database.hangs = true;
  for (uint32_t i = 0; i < 100; ++i) Begin(ById(1000 + i), 1);
  EXPECT_EQ(lookups->under_way(), 4u);
  EXPECT_EQ(Find(ById(5000), 1), Answer(std::unexpected(NoAnswer{EBUSY})));
  EXPECT_FALSE(Begin(ById(7), 2));
  EXPECT_EQ(lookups->under_way(), 5u);
  for (uint64_t host = 3; host < 100; ++host) Begin(ById(static_cast<uint32_t>(2000 + host)), host);
  EXPECT_EQ(lookups->under_way(), 16u);
  // Afterwards the first host has all of its places again.
  database.Answer();
  database.hangs = true;
  for (uint32_t i = 0; i < 100; ++i) Begin(ById(3000 + i), 1);
  EXPECT_EQ(lookups->under_way(), 4u);
  database.Answer();
}

TEST_F(LookupsTest, TellsTheOperatorOnceAMinute) {
  CapturedLog log;
  database.fails = true;
  for (uint32_t i = 0; i < 10; ++i) Find(ById(100 + i));
  EXPECT_EQ(std::ranges::count(log.text(), '\n'), 1) << log.text();
  world.RunFor(minutes(2));
  Find(ById(100));
  EXPECT_EQ(std::ranges::count(log.text(), '\n'), 2) << log.text();
}

TEST_F(LookupsTest, IgnoresAnswersAfterTheEnd) {
  database.hangs = true;
  const Result& waiting = Begin(ById(7));
  world.RunFor(seconds(2));
  EXPECT_TRUE(waiting);
  lookups.reset();
  database.Answer();
}

// --- with threads

TEST(LookupsOnThreads, ResumeTheCallerOnItsLoop) {
  Loop loop;
  TestDatabase database;
  Lookups lookups(database.database(), loop, Lookups::OnThreads(2));
  std::optional<Answer> found;
  bool on_loop = false;
  loop.Post([&] {
    Spawn([](Loop& where, Lookups& of, std::optional<Answer>& to, bool& is_current) -> Task<> {
      Caller caller{.loop = &where};
      to = co_await of.Find(ById(7), caller);
      is_current = where.IsCurrent();
    }(loop, lookups, found, on_loop));
  });
  ASSERT_TRUE(TurnUntil(loop, [&] { return found.has_value(); }));
  EXPECT_EQ(found, (Account{"anna", 7}));
  EXPECT_TRUE(on_loop);
}

TEST(LookupsOnThreads, ALookupThatHangsOutlivesThem) {
  struct Shared {
    std::latch begun{1}, may_end{1}, ended{1};
  };
  const auto shared = std::make_shared<Shared>();
  const Database hanging = [shared](const Query&) -> Answer {
    shared->begun.count_down();
    shared->may_end.wait();
    shared->ended.count_down();
    return std::nullopt;
  };
  {
    Loop loop;
    Lookups lookups(hanging, loop, Lookups::OnThreads(1), {.patience = milliseconds(1)});
    bool gave_up = false;
    Spawn([](Loop& where, Lookups& of, bool& to) -> Task<> {
      Caller caller{.loop = &where};
      const Answer answer = co_await of.Find(ById(7), caller);
      to = !answer;
    }(loop, lookups, gave_up));
    shared->begun.wait();
    ASSERT_TRUE(TurnUntil(loop, [&] { return gave_up; }));
  }
  shared->may_end.count_down();
  shared->ended.wait();
}

}  // namespace
}  // namespace penstock::idmap
