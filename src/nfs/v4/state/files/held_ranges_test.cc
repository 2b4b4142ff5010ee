#include "nfs/v4/state/files/held_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <random>
#include <vector>

#include "nfs/v4/state/files/test_ranges.h"

namespace penstock::nfs::v4 {
namespace {

class HeldRangesTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_STREQ(held.FindInconsistency(), nullptr); }

  // The most nodes on one path from the root: the height of an AVL tree.
  size_t Deepest() const { return static_cast<size_t>(1.45 * std::bit_width(held.size())) + 2; }
  size_t CostOf(auto&& call) {
    const size_t before = held.visited();
    call();
    return held.visited() - before;
  }

  const LockHolder alice{1}, bob{2}, carol{3};
  std::deque<LockHolder> holders;  // further holders
  HeldRanges held;
};

TEST_F(HeldRangesTest, SharedLocksDoNotConflict) {
  held.Insert(Shared(0, 9), alice);
  EXPECT_FALSE(held.FindConflict({0, 9}, false, &bob));
  EXPECT_EQ(held.FindConflict({9, 9}, true, &bob)->range, Shared(0, 9));
  EXPECT_FALSE(held.FindConflict({10, 20}, true, &bob));
}

TEST_F(HeldRangesTest, FindsTheFirstConflictAndItsHolder) {
  held.Insert(Exclusive(40, 49), carol);
  held.Insert(Exclusive(20, 29), bob);
  held.Insert(Shared(0, 9), alice);
  const auto found = held.FindConflict({0, kEnd}, false, nullptr);
  EXPECT_EQ(found->range, Exclusive(20, 29));
  EXPECT_EQ(found->holder, &bob);
}

TEST_F(HeldRangesTest, AHolderDoesNotConflictWithItself) {
  held.Insert(Exclusive(0, kEnd), alice);
  EXPECT_FALSE(held.FindConflict({0, kEnd}, true, &alice));
  EXPECT_TRUE(held.FindConflict({kEnd, kEnd}, false, &bob));
  held.Erase(Exclusive(0, kEnd), alice);
  EXPECT_FALSE(held.FindConflict({0, kEnd}, true, &bob));
}

// The same ranges in a plain list. It finds conflicts by a linear search.
struct Model {
  std::vector<HeldRanges::Held> all;

  bool Conflicts(const HeldRanges::Held& one, const LockRange& range, bool exclusive, const LockHolder* asker) const {
    return one.holder != asker && (exclusive || one.range.exclusive) && one.range.range.Overlaps(range);
  }
  const HeldRanges::Held* First(const LockRange& range, bool exclusive, const LockHolder* asker) const {
    const HeldRanges::Held* first = nullptr;
    const auto key = [](const HeldRanges::Held& one) { return std::pair(one.range.range.first, one.holder->number); };
    for (const auto& one : all) {
      if (Conflicts(one, range, exclusive, asker) && (!first || key(one) < key(*first))) first = &one;
    }
    return first;
  }
};

TEST_F(HeldRangesTest, FindsTheSameConflictsAsALinearSearch) {
  constexpr uint64_t kOctets = 300;
  std::mt19937_64 random(20260101);
  for (uint64_t number = 1; number <= 12; ++number) holders.emplace_back(number);
  Model model;
  size_t found = 0;
  for (int step = 0; step < 20'000; ++step) {
    // For 1000 steps most steps add a range; for the next 1000 steps most steps remove one.
    const bool grow = random() % 8 < (step / 1000 % 2 ? 2u : 6u);
    const LockHolder& holder = holders[random() % holders.size()];
    const uint64_t first = random() % kOctets, last = first + random() % (random() % 4 ? 5 : kOctets);
    if (grow) {
      const auto own = [&](const HeldRanges::Held& one) {
        return one.holder == &holder && one.range.range.Overlaps({first, last});
      };
      if (std::ranges::none_of(model.all, own)) {
        const LockedRange range{{first, last}, random() % 3 == 0};
        held.Insert(range, holder);
        model.all.push_back({range, &holder});
      }
    } else if (!model.all.empty()) {
      const size_t at = random() % model.all.size();
      held.Erase(model.all[at].range, *model.all[at].holder);
      model.all.erase(model.all.begin() + static_cast<ptrdiff_t>(at));
    }
    ASSERT_EQ(held.size(), model.all.size());
    if (step % 100 == 0) {
      ASSERT_STREQ(held.FindInconsistency(), nullptr);
    }
    const uint64_t from = random() % kOctets, to = from + random() % (random() % 2 ? 3 : kOctets);
    const LockHolder* const asker = random() % 4 ? &holders[random() % holders.size()] : nullptr;
    for (const bool exclusive : {false, true}) {
      const auto one = held.FindConflict({from, to}, exclusive, asker);
      const auto* const other = model.First({from, to}, exclusive, asker);
      ASSERT_EQ(one.has_value(), other != nullptr) << "step " << step;
      if (!one) continue;
      ++found;
      ASSERT_EQ(one->range, other->range);
      ASSERT_EQ(one->holder, other->holder);
    }
  }
  EXPECT_GT(found, 1000u);
}

// ---- the cost of a call

constexpr uint64_t kMany = 60'000;

TEST_F(HeldRangesTest, SearchesOnePathRegardlessOfTheNumberOfHolders) {
  for (uint64_t each = 0; each < kMany; ++each) {
    holders.emplace_back(10 + each);
    EXPECT_LE(CostOf([&] { held.Insert(Exclusive(2 * each, 2 * each), holders.back()); }), Deepest());
  }
  for (uint64_t each = 0; each < kMany; each += 777) {
    EXPECT_LE(CostOf([&] { EXPECT_TRUE(held.FindConflict({2 * each, kEnd}, true, &alice)); }), Deepest());
    EXPECT_LE(CostOf([&] { EXPECT_FALSE(held.FindConflict({2 * each + 1, 2 * each + 1}, true, &alice)); }), Deepest());
    EXPECT_LE(CostOf([&] { held.Erase(Exclusive(2 * each, 2 * each), holders[each]); }), Deepest());
  }
}

TEST_F(HeldRangesTest, SearchesOnePathPastTheAskersOwnRanges) {
  for (uint64_t each = 0; each < kMany; ++each) held.Insert(Exclusive(2 * each, 2 * each), alice);
  EXPECT_LE(CostOf([&] { EXPECT_FALSE(held.FindConflict({0, kEnd}, true, &alice)); }), Deepest());
  held.Insert(Shared(kMany + 1, kMany + 1), bob);
  EXPECT_LE(CostOf([&] { EXPECT_TRUE(held.FindConflict({0, kEnd}, true, &alice)); }), Deepest());
  EXPECT_LE(CostOf([&] { EXPECT_FALSE(held.FindConflict({0, kEnd}, false, &alice)); }), Deepest());
}

TEST_F(HeldRangesTest, SearchesOnePathPastSharedRanges) {
  for (uint64_t each = 0; each < kMany; ++each) {
    holders.emplace_back(10 + each);
    held.Insert(Shared(0, kEnd - each), holders.back());
  }
  EXPECT_LE(CostOf([&] { EXPECT_FALSE(held.FindConflict({0, kEnd}, false, &alice)); }), Deepest());
  EXPECT_LE(CostOf([&] { EXPECT_TRUE(held.FindConflict({kEnd, kEnd}, true, &alice)); }), Deepest());
}

}  // namespace
}  // namespace penstock::nfs::v4
