#include "nfs/v4/state/files/delegation_pressure.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::nfs::v4 {
namespace {

size_t SumBelow(const std::vector<size_t>& held, size_t level) {
  size_t sum = 0;
  for (const size_t each : held) sum += std::min(each, level);
  return sum;
}

TEST(FairLevel, TakesFromTheLargestHolderOnly) {
  EXPECT_EQ(FairLevel({100, 10, 10}, 60), 40u);
  EXPECT_EQ(FairLevel({10, 100, 10}, 119), 99u);
}

TEST(FairLevel, BringsAllLargeHoldersDownToOneNumber) {
  EXPECT_EQ(FairLevel({50, 10, 60}, 70), 30u);
  EXPECT_EQ(FairLevel({50, 50, 50}, 100), 33u) << "the sum stays below the room";
}

TEST(FairLevel, TakesNothingIfThereIsRoomForAll) {
  EXPECT_EQ(FairLevel({5, 7, 6}, 18), 7u);
  EXPECT_EQ(FairLevel({5, 7, 6}, 100), 7u);
}

TEST(FairLevel, LeavesOneDelegationToEachClient) {
  EXPECT_EQ(FairLevel({1, 1, 1, 5}, 2), 1u);
  EXPECT_EQ(FairLevel({3, 3, 3}, 0), 1u);
  EXPECT_EQ(FairLevel({}, 10), 1u);
}

// For all small numbers: the clients fit in at this level, and would not at the next one.
TEST(FairLevel, IsTheHighestLevelAtWhichAllFitIn) {
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = 0; b < 8; ++b) {
      for (size_t c = 0; c < 8; ++c) {
        const std::vector<size_t> held{a, b, c};
        for (size_t room = 3; room < a + b + c; ++room) {
          const size_t level = FairLevel(held, room);
          EXPECT_LE(SumBelow(held, level), room) << a << ' ' << b << ' ' << c;
          EXPECT_GT(SumBelow(held, level + 1), room) << a << ' ' << b << ' ' << c;
        }
      }
    }
  }
}

TEST(DelegationPressure, BeginsAtTheHighMarkAndEndsAtTheLowMark) {
  DelegationPressure pressure(80);
  EXPECT_EQ(pressure.high(), 70u);
  EXPECT_EQ(pressure.low(), 60u);
  pressure.HandleGiven(69, 2);
  EXPECT_FALSE(pressure.on());
  pressure.HandleGiven(70, 2);
  EXPECT_TRUE(pressure.on());
  pressure.Adapt({51, 10});
  EXPECT_TRUE(pressure.on());
  EXPECT_EQ(pressure.level(), 50u);
  pressure.Adapt({50, 10});
  EXPECT_FALSE(pressure.on());
  pressure.Adapt({60, 10});
  EXPECT_FALSE(pressure.on()) << "only a new delegation begins it";
}

TEST(DelegationPressure, AdmitsClientsBelowTheLevelUpToTheLimit) {
  DelegationPressure pressure(80);
  EXPECT_TRUE(pressure.Admits(60, 60));
  pressure.HandleGiven(70, 2);
  pressure.Adapt({60, 10});
  ASSERT_EQ(pressure.level(), 50u);
  EXPECT_FALSE(pressure.Admits(60, 70));
  EXPECT_FALSE(pressure.Admits(50, 70));
  EXPECT_TRUE(pressure.Admits(49, 70));
  EXPECT_TRUE(pressure.Admits(49, 79));
  EXPECT_FALSE(pressure.Admits(49, 80));
}

TEST(DelegationPressure, BeginsWithAnEqualShareAsTheLevel) {
  DelegationPressure pressure(80);
  pressure.HandleGiven(70, 3);
  EXPECT_EQ(pressure.level(), 20u);
  EXPECT_FALSE(pressure.Admits(50, 70));
  EXPECT_TRUE(pressure.Admits(10, 70));
}

// The marks of such a limit do not differ from the limit.
TEST(DelegationPressure, NeverBeginsWithATinyLimit) {
  for (size_t limit = 1; limit < 4; ++limit) {
    DelegationPressure pressure(limit);
    pressure.HandleGiven(limit, 1);
    EXPECT_FALSE(pressure.on()) << limit;
    EXPECT_TRUE(pressure.Admits(0, limit - 1)) << limit;
    EXPECT_FALSE(pressure.Admits(0, limit)) << limit;
  }
}

}  // namespace
}  // namespace penstock::nfs::v4
