#include "nfs/v4/state/files/lock_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "nfs/v4/state/files/test_ranges.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

TEST(LockRange, ConvertsOffsetAndLengthToFirstAndLastOctet) {
  EXPECT_EQ(LockRange::From(10, 5), (LockRange{10, 14}));
  EXPECT_EQ(LockRange::From(0, 1), (LockRange{0, 0}));
}

TEST(LockRange, HasNoEndIfTheLengthIsAllOnes) {
  EXPECT_EQ(LockRange::From(0, kEnd), (LockRange{0, kEnd}));
  EXPECT_EQ(LockRange::From(100, kEnd), (LockRange{100, kEnd}));
  EXPECT_EQ(LockRange::From(kEnd, kEnd), (LockRange{kEnd, kEnd}));
}

TEST(LockRange, RejectsALengthOfZero) { EXPECT_FALSE(LockRange::From(25, 0)); }

TEST(LockRange, RejectsAnEndBeyond64Bits) {
  EXPECT_FALSE(LockRange::From(100, kEnd - 1));
  EXPECT_FALSE(LockRange::From(2, kEnd - 1));
  EXPECT_FALSE(LockRange::From(kEnd, 1));
  EXPECT_EQ(LockRange::From(1, kEnd - 1), (LockRange{1, kEnd - 1}));
  EXPECT_EQ(LockRange::From(kEnd - 1, 1), (LockRange{kEnd - 1, kEnd - 1}));
}

TEST(LockRange, ReturnsItsLength) {
  EXPECT_EQ((LockRange{10, 14}).length(), 5u);
  EXPECT_EQ((LockRange{10, kEnd}).length(), kEnd);
  EXPECT_EQ((LockRange{0, kEnd}).length(), kEnd);
  EXPECT_EQ((LockRange{0, kEnd - 1}).length(), kEnd);
}

TEST(LockRanges, FirstPartEndsWithTheLastOfSoManyRanges) {
  LockRanges held;
  for (const uint64_t first : {10, 20, 30, 40}) held.Lock({first, first + 4}, true);
  EXPECT_EQ(held.FirstPart({0, kEnd}, 2), (LockRange{0, 24}));
  EXPECT_EQ(held.FirstPart({12, 33}, 1), (LockRange{12, 14})) << "it begins within a range";
  EXPECT_EQ(held.FirstPart({12, 33}, 3), std::nullopt) << "there are not more";
  EXPECT_EQ(held.FirstPart({15, 19}, 1), std::nullopt) << "there are none";
}

TEST(LockRanges, MergesOverlappingRanges) {
  LockRanges held;
  held.Lock({25, 99}, true);
  held.Lock({50, 124}, true);
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(25, 124)));
}

TEST(LockRanges, MergesAdjacentRanges) {
  LockRanges held;
  held.Lock({0, 9}, false);
  held.Lock({20, 29}, false);
  held.Lock({10, 19}, false);
  EXPECT_THAT(held.ranges(), ElementsAre(Shared(0, 29)));
}

TEST(LockRanges, KeepsSharedAndExclusiveRangesApart) {
  LockRanges held;
  held.Lock({0, 9}, false);
  held.Lock({10, 19}, true);
  EXPECT_THAT(held.ranges(), ElementsAre(Shared(0, 9), Exclusive(10, 19)));
}

TEST(LockRanges, ChangesTheKindInTheMiddleOfARange) {
  LockRanges held;
  held.Lock({0, 29}, true);
  held.Lock({10, 19}, false);
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(0, 9), Shared(10, 19), Exclusive(20, 29)));
  held.Lock({10, 19}, true);
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(0, 29)));
}

TEST(LockRanges, UnlockCutsARangeInTwo) {
  LockRanges held;
  held.Lock({100, 199}, true);
  held.Unlock({125, 174});
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(100, 124), Exclusive(175, 199)));
}

TEST(LockRanges, UnlockIgnoresOctetsThatAreNotLocked) {
  LockRanges held;
  held.Unlock({0, kEnd});
  held.Lock({100, 199}, true);
  held.Unlock({0, 49});
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(100, 199)));
}

TEST(LockRanges, LocksUpToTheLargestOffset) {
  LockRanges held;
  held.Lock({0, kEnd}, true);
  held.Unlock({10, kEnd - 1});
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(0, 9), Exclusive(kEnd, kEnd)));
  held.Lock({10, kEnd}, true);
  EXPECT_THAT(held.ranges(), ElementsAre(Exclusive(0, kEnd)));
  held.Unlock({0, kEnd});
  EXPECT_THAT(held.ranges(), IsEmpty());
}

TEST(LockRanges, ReportsTheRemovedAndAddedRanges) {
  LockRanges held;
  EXPECT_THAT(held.Lock({0, 9}, true).added, ElementsAre(Exclusive(0, 9)));
  const LockChange merged = held.Lock({5, 19}, true);
  EXPECT_THAT(merged.removed, ElementsAre(Exclusive(0, 9)));
  EXPECT_THAT(merged.added, ElementsAre(Exclusive(0, 19)));
  const LockChange cut = held.Unlock({5, 9});
  EXPECT_THAT(cut.removed, ElementsAre(Exclusive(0, 19)));
  EXPECT_THAT(cut.added, ElementsAre(Exclusive(0, 4), Exclusive(10, 19)));
}

TEST(LockRanges, TellsWhetherUnlockingWouldCutARange) {
  LockRanges held;
  held.Lock({10, 19}, true);
  EXPECT_TRUE(held.WouldCut({12, 15}));
  EXPECT_FALSE(held.WouldCut({10, 15}));
  EXPECT_FALSE(held.WouldCut({12, 19}));
  EXPECT_FALSE(held.WouldCut({0, 5}));
}

// A model of LockRanges: a table with the kind of the lock of each octet (0: none, 1: shared, 2: exclusive).
class NaiveLocks {
 public:
  static constexpr uint64_t kOctets = 48;
  // `base` is the offset of the first octet of the table.
  explicit NaiveLocks(uint64_t base) : base_(base) {}
  void Set(uint64_t first, uint64_t last, int kind) {
    for (uint64_t at = first; at <= last; ++at) octets_[at] = kind;
  }
  std::vector<LockedRange> Ranges() const {
    std::vector<LockedRange> ranges;
    for (uint64_t at = 0; at < kOctets; ++at) {
      if (octets_[at] == 0) continue;
      const bool exclusive = octets_[at] == 2;
      if (at > 0 && octets_[at - 1] == octets_[at]) {
        ranges.back().range.last = base_ + at;
      } else {
        ranges.push_back({{base_ + at, base_ + at}, exclusive});
      }
    }
    return ranges;
  }

 private:
  uint64_t base_;
  std::array<int, kOctets> octets_{};
};

class RandomLocks : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomLocks, AgreeWithATableOfOctets) {
  const uint64_t base = GetParam();
  std::mt19937_64 random(base + 1);
  for (int run = 0; run < 200; ++run) {
    LockRanges held;
    NaiveLocks naive(base);
    for (int step = 0; step < 60; ++step) {
      const uint64_t first = random() % NaiveLocks::kOctets;
      const uint64_t last = first + random() % (NaiveLocks::kOctets - first);
      const LockRange range{base + first, base + last};
      const int kind = static_cast<int>(random() % 3);
      const bool would_cut = held.WouldCut(range);
      std::vector<LockedRange> before(held.ranges().begin(), held.ranges().end());
      const LockChange change = kind == 0 ? held.Unlock(range) : held.Lock(range, kind == 2);
      naive.Set(first, last, kind);
      ASSERT_THAT(held.ranges(), ElementsAreArray(naive.Ranges()));
      for (const LockedRange& gone : change.removed) ASSERT_EQ(std::erase(before, gone), 1u);
      before.insert(before.end(), change.added.begin(), change.added.end());
      ASSERT_THAT(before, UnorderedElementsAreArray(naive.Ranges()));
      if (kind == 0) {
        ASSERT_EQ(would_cut, change.added.size() > change.removed.size());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AtBothEnds, RandomLocks, testing::Values(0, 1000, UINT64_MAX - NaiveLocks::kOctets + 1));

}  // namespace
}  // namespace penstock::nfs::v4
