#include "client/nfs4/delegation_table.h"

#include <gtest/gtest.h>

#include "client/nfs4/open_file.h"

namespace penstock::client::v4 {
namespace {

Handle Numbered(uint8_t number) {
  const std::byte octet{number};
  return Handle(ConstBytes(&octet, 1));
}

nfs4::stateid4 Stateid(uint8_t number) {
  nfs4::stateid4 stateid;
  stateid.seqid = 1;
  stateid.other[0] = std::byte{number};
  return stateid;
}

constexpr uint64_t kEpoch = 1;

DelegationTable::Pointer Make(uint8_t number, bool writes = false, uint64_t epoch = kEpoch) {
  return std::make_shared<Delegation>(Numbered(number), Stateid(number), writes, epoch, Access::kRead);
}

// A place in memory stands for an open file. The table never looks at it.
OpenFile& User(int& place) { return reinterpret_cast<OpenFile&>(place); }

TEST(Delegation, ReadDelegationAllowsNoWriter) {
  Delegation delegation(Numbered(1), Stateid(1), false, 1, Access::kBoth);
  EXPECT_TRUE(delegation.LetsOpen(Access::kRead));
  EXPECT_FALSE(delegation.LetsOpen(Access::kWrite));
  EXPECT_FALSE(delegation.LetsOpen(Access::kBoth));
  EXPECT_TRUE(delegation.Covers(Access::kRead));
  EXPECT_FALSE(delegation.Covers(Access::kWrite));
}

TEST(Delegation, WriteDelegationAllowsTheAccessThatTheServerHasGranted) {
  Delegation delegation(Numbered(1), Stateid(1), true, 1, Access::kWrite);
  EXPECT_TRUE(delegation.LetsOpen(Access::kWrite));
  EXPECT_FALSE(delegation.LetsOpen(Access::kBoth)) << "the server has not granted reading";
  delegation.HandleOpened(Access::kRead);
  EXPECT_TRUE(delegation.LetsOpen(Access::kBoth));
  delegation.HandlePermissionsChanged();
  EXPECT_FALSE(delegation.LetsOpen(Access::kRead)) << "the permissions may have changed";
  EXPECT_TRUE(delegation.Covers(Access::kBoth)) << "open files stay open";
}

TEST(Delegation, AllowsNoOpenWhileItIsReturned) {
  Delegation delegation(Numbered(1), Stateid(1), true, 1, Access::kBoth);
  delegation.HandleReturning();
  EXPECT_FALSE(delegation.LetsOpen(Access::kRead));
  EXPECT_FALSE(delegation.gone());
}

// The server sets the time of the last access and recalls no delegation for that.
TEST(Delegation, KnowsThatTheFileWasReadSinceItGotTheAttributes) {
  Delegation delegation(Numbered(1), Stateid(1), false, 1, Access::kRead);
  delegation.Remember({.size = 100, .change = 7}, 0);
  ASSERT_TRUE(delegation.AttributesAt(0));
  EXPECT_FALSE(delegation.was_read());
  delegation.HandleRead();
  EXPECT_TRUE(delegation.was_read());
  EXPECT_TRUE(delegation.AttributesAt(0)) << "only the time of the last access may be older";
  delegation.Remember({.size = 100, .change = 7}, 0);
  EXPECT_FALSE(delegation.was_read());
}

// RFC 8881 §10.4.3: the change attribute is the original one until the client changes the file, then a greater one. The
// size is the current one.
TEST(Delegation, TellsTheServerWhetherTheFileWasChanged) {
  Delegation delegation(Numbered(1), Stateid(1), true, 1, Access::kBoth);
  delegation.Remember({.size = 100, .change = 7}, 0);
  EXPECT_EQ(delegation.change(), 7u);
  EXPECT_EQ(delegation.size(), 100u);
  delegation.HandleWrite(50);
  EXPECT_FALSE(delegation.AttributesAt(0));
  EXPECT_EQ(delegation.change(), 8u);
  EXPECT_EQ(delegation.size(), 100u) << "the write did not extend the file";
  delegation.HandleWrite(150);
  EXPECT_EQ(delegation.size(), 150u);
  delegation.Remember({.size = 150, .change = 9}, 0);
  EXPECT_EQ(delegation.change(), 8u) << "relative to the value at the grant";
  delegation.HandleSize(3);
  EXPECT_EQ(delegation.size(), 3u);
}

TEST(ChangeCounts, IdentifyTheChangedFile) {
  ChangeCounts counts;
  const ChangeCounts before = counts;
  EXPECT_TRUE(counts.IsSame(Numbered(1), before));
  counts.Count(Numbered(1));
  EXPECT_FALSE(counts.IsSame(Numbered(1), before));
  int same = 0;
  for (uint8_t i = 2; i < 100; ++i) same += counts.IsSame(Numbered(i), before);
  EXPECT_GT(same, 80) << "few files share a count";
  counts.CountName();
  for (uint8_t i = 1; i < 100; ++i) EXPECT_FALSE(counts.IsSame(Numbered(i), before));
}

TEST(Delegation, ForgetsItsAttributesAfterAChangeOfNames) {
  Delegation delegation(Numbered(1), Stateid(1), false, 1, Access::kRead);
  delegation.Remember({.links = 2}, 5);
  ASSERT_TRUE(delegation.AttributesAt(5));
  EXPECT_EQ(delegation.AttributesAt(5)->links, 2u);
  EXPECT_FALSE(delegation.AttributesAt(6));
}

TEST(DelegationTable, HoldsOneDelegationForEachFile) {
  DelegationTable table;
  const auto first = Make(1);
  EXPECT_EQ(table.Add(first), nullptr);
  EXPECT_EQ(table.Find(Numbered(1)), first);
  EXPECT_EQ(table.Find(Numbered(2)), nullptr);
  const auto second = std::make_shared<Delegation>(Numbered(1), Stateid(2), true, 1, Access::kRead);
  EXPECT_EQ(table.Add(second), first);
  EXPECT_EQ(table.size(), 1u);
  table.Remove(*first);
  EXPECT_EQ(table.Find(Numbered(1)), second) << "the second delegation is still in the table";
  table.Remove(*second);
  EXPECT_EQ(table.Find(Numbered(1)), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(DelegationTable, FindsAStateidWithAnySeqid) {
  DelegationTable table;
  const auto delegation = Make(1);
  table.Add(delegation);
  nfs4::stateid4 later = Stateid(1);
  later.seqid = 5;
  EXPECT_EQ(table.Find(later), delegation);
  EXPECT_EQ(table.Find(Stateid(2)), nullptr);
}

TEST(DelegationTable, ReturnsTheLeastRecentlyUsedDelegationFirst) {
  DelegationTable table;
  for (uint8_t i = 1; i <= 5; ++i) table.Add(Make(i, i > 3));
  int place = 0;
  const auto used = table.Find(Numbered(2));
  used->AddUser(User(place));
  table.Find(Numbered(1));
  // In the order of their last use: 3, 4, 5, 2, 1. File 2 is open.
  using Kind = DelegationTable::Kind;
  const auto numbers = [&](size_t keep, Kind kind) {
    std::vector<int> found;
    for (const auto& each : table.Surplus(keep, kind, kEpoch))
      found.push_back(static_cast<int>(each->handle().bytes()[0]));
    return found;
  };
  EXPECT_EQ(numbers(5, Kind::kAny), std::vector<int>{});
  EXPECT_EQ(numbers(3, Kind::kAny), (std::vector<int>{3, 4}));
  EXPECT_EQ(numbers(0, Kind::kAny), (std::vector<int>{3, 4, 5, 1, 2}));
  EXPECT_EQ(numbers(1, Kind::kRead), (std::vector<int>{3, 1}));
  EXPECT_EQ(numbers(0, Kind::kWrite), (std::vector<int>{4, 5}));
  table.Find(Numbered(4))->HandleReturning();
  EXPECT_EQ(numbers(0, Kind::kWrite), (std::vector<int>{5})) << "one is being returned";
  used->RemoveUser(User(place));
}

TEST(DelegationTable, TheLeastUsedDelegationGoesFirst) {
  DelegationTable table;
  table.Add(Make(1, false, kEpoch - 1));
  for (uint8_t i = 2; i <= 5; ++i) table.Add(Make(i));
  int place = 0;
  const auto used = table.Find(Numbered(2));
  used->AddUser(User(place));
  table.Find(Numbered(3))->HandleReturning();
  table.Find(Numbered(4));
  // In the order of their last use: 1 of another client id, 5, 2 with an open file, 3 on its way, 4.
  EXPECT_EQ(table.LeastUsed(kEpoch)->handle(), Numbered(5));
  table.Find(Numbered(5))->HandleReturning();
  EXPECT_EQ(table.LeastUsed(kEpoch)->handle(), Numbered(4));
  table.Find(Numbered(4))->HandleReturning();
  EXPECT_FALSE(table.LeastUsed(kEpoch));
  used->RemoveUser(User(place));
}

TEST(DelegationTable, DoesNotReturnWhatTheServerHasForgotten) {
  DelegationTable table;
  table.Add(Make(1, false, kEpoch - 1));
  table.Add(Make(2));
  table.Add(Make(3));
  const auto surplus = table.Surplus(1, DelegationTable::Kind::kAny, kEpoch);
  ASSERT_EQ(surplus.size(), 1u);
  EXPECT_EQ(surplus[0]->handle(), Numbered(2));
}

}  // namespace
}  // namespace penstock::client::v4
