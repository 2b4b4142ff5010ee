#include "client/held_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::client {
namespace {

using testing::ElementsAre;
using Piece = HeldLocks::Piece;

constexpr auto kShared = LockKind::kShared;
constexpr auto kExclusive = LockKind::kExclusive;
constexpr uint64_t kToEnd = ByteRange::kToEnd;

TEST(HeldLocks, AreSortedByOffset) {
  HeldLocks held;
  EXPECT_TRUE(held.empty());
  held.Lock({20, 5}, kShared);
  held.Lock({0, 5}, kExclusive);
  EXPECT_THAT(held.pieces(), ElementsAre(Piece{{0, 5}, kExclusive}, Piece{{20, 5}, kShared}));
}

TEST(HeldLocks, ANewLockReplacesOlderLocksInItsRange) {
  HeldLocks held;
  held.Lock({0, 100}, kShared);
  held.Lock({40, 20}, kExclusive);
  EXPECT_THAT(held.pieces(),
              ElementsAre(Piece{{0, 40}, kShared}, Piece{{40, 20}, kExclusive}, Piece{{60, 40}, kShared}));
  held.Lock({0, 100}, kShared);
  EXPECT_THAT(held.pieces(), ElementsAre(Piece{{0, 100}, kShared}));
}

TEST(HeldLocks, UnlockMayLeaveBothEnds) {
  HeldLocks held;
  held.Lock({10, 10}, kExclusive);
  held.Unlock({12, 3});
  EXPECT_THAT(held.pieces(), ElementsAre(Piece{{10, 2}, kExclusive}, Piece{{15, 5}, kExclusive}));
  held.Unlock({20, 1});  // behind the lock
  held.Unlock({9, 1});   // before the lock
  EXPECT_EQ(held.pieces().size(), 2u);
  held.Unlock({0, kToEnd});
  EXPECT_TRUE(held.empty());
}

TEST(HeldLocks, SupportRangesWithoutEnd) {
  HeldLocks held;
  held.Lock({100, kToEnd}, kExclusive);
  held.Unlock({200, 100});
  EXPECT_THAT(held.pieces(), ElementsAre(Piece{{100, 100}, kExclusive}, Piece{{300, kToEnd}, kExclusive}));
  held.Unlock({kToEnd, 1});  // the last possible octet
  EXPECT_THAT(held.pieces(), ElementsAre(Piece{{100, 100}, kExclusive}, Piece{{300, kToEnd - 300}, kExclusive}));
}

}  // namespace
}  // namespace penstock::client
