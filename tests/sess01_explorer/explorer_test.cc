#include "explorer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bound_server.h"
#include "slot_server.h"

namespace penstock::explorer {
namespace {

struct Explored {
  Report report;
  std::string story;
};

Explored ExploreWorld(const Size& size, std::unique_ptr<Server> server) {
  World world(size, std::move(server));
  Explored explored{.report = Explore(world), .story = {}};
  explored.story = Story(world, explored.report);
  return explored;
}

Explored ExploreBound(const Size& size, Rules rules = {}) {
  const auto streams = static_cast<uint32_t>(size.streams);
  return ExploreWorld(size, std::make_unique<BoundServer>(streams, size.executes_once, rules));
}

// Expects that nothing is wrong in any of at least `states` states.
void ExpectRight(const Explored& explored, size_t states) {
  EXPECT_EQ(explored.report.wrong, "") << explored.story;
  EXPECT_GT(explored.report.states, states);
}

// Expects an error at the end of a way of so many events.
void ExpectWrong(const Explored& explored, std::string_view wrong, size_t events) {
  EXPECT_EQ(explored.report.wrong, wrong) << explored.story;
  EXPECT_EQ(explored.report.way.size(), events) << explored.story;
}

// The world has two connections and a rebind, two streamids and three requests.
TEST(ExplorerTest, ASessionExecutesEachRequestOnceAndAnswersEveryLiveClient) { ExpectRight(ExploreBound({}), 500'000); }

TEST(ExplorerTest, ARequestMayBeRetriedOverThreeOtherChannels) {
  ExpectRight(ExploreBound({.channels = 4, .streams = 1, .requests = 2}), 100'000);
}

TEST(ExplorerTest, ASessionWithoutKeptRepliesExecutesNoRequestTwiceAtATimeOrTooLate) {
  ExpectRight(ExploreBound({.executes_once = false}), 500'000);
}

// X13 a: the original arrives late, after its retry.
TEST(ExplorerTest, TheDraftToTheLetterExecutesALateOriginalTwice) {
  const Rules literal{.closes_named = false, .stale = Rules::Stale::kNever};
  ExpectWrong(ExploreBound({}, literal), "request 1 is executed twice", 11);
}

TEST(ExplorerTest, WithoutClosingTheNamedChannelALateOriginalIsExecutedTwice) {
  ExpectWrong(ExploreBound({}, {.closes_named = false}), "request 1 is executed twice", 11);
}

// X13 b: a retry arrives late, after another one was answered.
TEST(ExplorerTest, WithoutTheStaleRuleALateRetryIsExecutedTwice) {
  const Explored explored = ExploreBound({}, {.stale = Rules::Stale::kNever});
  ExpectWrong(explored, "request 1 is executed twice", 14);
  for (const std::string_view line :
       {"The server receives request 1 over channel 3, closes channel 1, and begins to execute it.",
        "The server receives request 1 late over channel 2, and begins to execute it."}) {
    EXPECT_NE(explored.story.find(line), std::string::npos) << explored.story;
  }
}

TEST(ExplorerTest, IfEveryUnknownRetryIsStaleALiveClientIsRefused) {
  ExpectWrong(ExploreBound({}, {.stale = Rules::Stale::kAlways}), "request 1 of a live client is refused", 4);
}

TEST(ExplorerTest, ARequestThatIsNotTakenBackHoldsUpItsClient) {
  ExpectWrong(ExploreBound({.streams = 1, .requests = 2}, {.takes_back = false}),
              "a live client cannot get all its answers any more", 4);
}

TEST(ExplorerTest, TheSlotsOfRfc8881ExecuteEachRequestOnceAndAnswerEveryLiveClient) {
  ExpectRight(ExploreWorld({}, std::make_unique<SlotServer>(2)), 500'000);
}

}  // namespace
}  // namespace penstock::explorer
