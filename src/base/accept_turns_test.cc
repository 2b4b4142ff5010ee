#include "base/accept_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <asio/io_context.hpp>

namespace penstock {
namespace {

using testing::ElementsAre;

// Three loops on one thread, with `waiting` peers to accept.
struct AcceptTurnsTest : ::testing::Test {
  AcceptTurnsTest() {
    for (size_t i = 0; i < loops.size(); ++i) {
      members[i] = turns->Join(loops[i], [this, i] { Accept(i); });
    }
  }
  void Accept(size_t i) {
    while (waiting > 0 && members[i]->HasTurn()) {
      --waiting;
      ++accepted[i];
      members[i]->EndTurn();
    }
  }
  // Runs the loops until each has run the functions that the others posted.
  void Run() {
    for (int round = 0; round < 100; ++round) {
      for (Loop& loop : loops) {
        loop.context().restart();
        loop.context().poll();
      }
    }
  }

  const std::shared_ptr<AcceptTurns> turns = std::make_shared<AcceptTurns>();
  std::array<Loop, 3> loops;
  std::array<std::unique_ptr<AcceptTurns::Member>, 3> members;
  std::array<int, 3> accepted{};
  int waiting = 0;
};

TEST_F(AcceptTurnsTest, GivesEachLoopTheSameNumberOfPeers) {
  waiting = 30;
  Accept(2);
  EXPECT_THAT(accepted, ElementsAre(0, 0, 0)) << "it is not the turn of loop 2";
  Accept(0);
  EXPECT_THAT(accepted, ElementsAre(1, 0, 0));
  Run();
  EXPECT_THAT(accepted, ElementsAre(10, 10, 10));
}

TEST_F(AcceptTurnsTest, PassesTheTurnOnWhenAMemberLeaves) {
  waiting = 30;
  members[0].reset();
  Run();
  EXPECT_THAT(accepted, ElementsAre(0, 15, 15));
  members[2].reset();
  waiting = 1;
  Accept(1);
  EXPECT_THAT(accepted, ElementsAre(0, 16, 15));
}

}  // namespace
}  // namespace penstock
