#include "client/nfs4/slot_table.h"

#include <gtest/gtest.h>

namespace penstock::client::v4 {
namespace {

TEST(SlotTable, GivesTheLowestFreeSlotFirst) {
  SlotTable table(3);
  EXPECT_EQ(table.Take(), (SlotUse{0, 1}));
  EXPECT_EQ(table.Take(), (SlotUse{1, 1}));
  EXPECT_EQ(table.highest_in_use(), 1u);
  table.HandleExecuted({0, 1});
  EXPECT_EQ(table.Take(), (SlotUse{0, 2}));
}

TEST(SlotTable, HasNoMoreSlotsThanAgreed) {
  SlotTable table(2);
  EXPECT_TRUE(table.Take() && table.Take());
  EXPECT_EQ(table.Take(), std::nullopt);
  EXPECT_EQ(table.in_use(), 2u);
  EXPECT_EQ(SlotTable(0).Take(), (SlotUse{0, 1})) << "a table has at least one slot";
}

TEST(SlotTable, CountsOnlyExecutedRequests) {
  SlotTable table(1);
  const SlotUse first = *table.Take();
  table.HandleRefused(first);
  EXPECT_EQ(table.Take(), first);
  table.HandleExecuted(first);
  EXPECT_EQ(table.Take(), (SlotUse{0, 2}));
}

// RFC 8267 §6.6: the client makes a slot usable again if its request has no reply.
TEST(SlotTable, KeepsTheSlotOfALostRequestUntilItIsSettled) {
  SlotTable table(2);
  const SlotUse lost = *table.Take();
  table.HandleLost(lost);
  EXPECT_TRUE(table.idle());
  EXPECT_EQ(table.Take(), (SlotUse{1, 1}));
  EXPECT_EQ(table.Take(), std::nullopt);
  EXPECT_EQ(table.TakeDoubtful(), lost);
  EXPECT_EQ(table.TakeDoubtful(), std::nullopt);
  table.HandleExecuted(lost);
  EXPECT_EQ(table.Take(), (SlotUse{0, 2}));
}

TEST(SlotTable, UsesNoMoreSlotsThanTheServerAsksFor) {
  SlotTable table(4);
  table.HandleLimits(3, 1);
  EXPECT_TRUE(table.Take() && table.Take());
  EXPECT_EQ(table.Take(), std::nullopt);
  table.HandleLimits(3, 3);
  EXPECT_EQ(table.Take(), (SlotUse{2, 1}));
  table.HandleTarget(0);
  table.HandleRefused({2, 1});
  EXPECT_EQ(table.Take(), std::nullopt);
  table.HandleTarget(1000);
  EXPECT_EQ(table.Take(), (SlotUse{2, 1}));
}

TEST(SlotTable, RestartsASlotThatTheServerHasForgotten) {
  SlotTable table(2);
  const SlotUse low = *table.Take();
  const SlotUse high = *table.Take();
  table.HandleExecuted(high);
  table.HandleLimits(0, 0);
  table.HandleLimits(1, 1);
  EXPECT_EQ(table.Take(), (SlotUse{1, 1}));
  table.HandleExecuted(low);
  EXPECT_EQ(table.Take(), (SlotUse{0, 2}));
}

TEST(SlotTable, KnowsWhichRequestsAreUnderWay) {
  SlotTable slots(2);
  const SlotUse use = *slots.Take();
  EXPECT_TRUE(slots.IsUnderWay(use));
  EXPECT_FALSE(slots.IsUnderWay({use.slot, use.sequence - 1}));
  EXPECT_FALSE(slots.IsUnderWay({1, 1})) << "no request was sent in this slot";
  EXPECT_FALSE(slots.IsUnderWay({2, 1})) << "no such slot";
  slots.HandleLost(use);
  EXPECT_TRUE(slots.IsUnderWay(use)) << "the request is doubtful";
  slots.HandleExecuted(*slots.TakeDoubtful());
  EXPECT_FALSE(slots.IsUnderWay(use));
}

// RFC 8881 §2.10.6.1: zero is an ordinary sequence id.
TEST(SlotTable, ZeroFollowsTheLargestSequence) {
  SlotTable table(1, 0xfffffffe);
  for (const uint32_t sequence : {0xfffffffe, 0xffffffff, 0u, 1u}) {
    const SlotUse use = *table.Take();
    EXPECT_EQ(use, (SlotUse{0, sequence}));
    EXPECT_TRUE(table.IsUnderWay(use));
    table.HandleExecuted(use);
  }
}

}  // namespace
}  // namespace penstock::client::v4
