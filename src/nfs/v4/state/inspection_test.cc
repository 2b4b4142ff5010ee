#include "nfs/v4/state/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "nfs/v4/dialect/test_dialects.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Opens are visited in steps of some hundred: here are enough for several steps.
class InspectionTest : public testing::Test {
 protected:
  static constexpr size_t kMany = 3000;

  static NamedFile Numbered(size_t number) {
    const fs::Handle object = *fs::Handle::FromBytes(AsBytes("file " + std::to_string(number)));
    return {{ExportId(1), object}, {1, object}};
  }
  nfs4::stateid4 Open(ClientId client, size_t number) {
    return state_.Run([&](StateTables& tables) {
      OpenOwner* const owner = tables.files.owners.GetOpenOwner(client, AsBytes("owner"), kNow);
      owner->confirmed = true;
      const auto opened = tables.files.opens.AddOpen(*owner, Numbered(number),
                                                     {nfs4::OPEN4_SHARE_ACCESS_WRITE, nfs4::OPEN4_SHARE_DENY_NONE},
                                                     nullptr, DialectOf(1), kNow);
      EXPECT_EQ(opened.status, nfs4::NFS4_OK);
      return opened.stateid;
    });
  }
  void OpenMany(ClientId client) {
    for (size_t i = 0; i < kMany; ++i) Open(client, i);
  }
  // Locks `ranges` octets of the file that is open, with a gap between every two.
  void Lock(const nfs4::stateid4& open, size_t number, size_t ranges) {
    state_.Run([&](StateTables& tables) {
      OpenState& opened = **tables.files.Find<OpenState>({DialectOf(1), std::nullopt}, open, Numbered(number).handle);
      for (uint64_t i = 0; i < ranges; ++i) {
        const auto result = tables.files.locks.Lock(opened, AsBytes("locker"),
                                                    {.range = {2 * i, 2 * i}, .exclusive = true}, DialectOf(1), kNow);
        ASSERT_EQ(result.status, nfs4::NFS4_OK);
      }
    });
  }
  std::vector<ShownState> Visit(const StateFilter& filter) {
    std::vector<ShownState> all;
    VisitStates(state_, kNow, filter, [&](ShownState each) {
      all.push_back(std::move(each));
      return true;
    });
    return all;
  }
  static std::set<std::string> FilesOf(const std::vector<ShownState>& states) {
    std::set<std::string> files;
    for (const ShownState& each : states) files.insert(std::string(AsText(each.file.object.bytes())));
    return files;
  }

  static constexpr TimePoint kNow{std::chrono::hours(1)};
  const ClientId alice_{0x0101};
  const ClientId bob_{0x0202};
  Settings settings_;
  State state_{{.settings = settings_, .instance = 7}};
};

TEST_F(InspectionTest, VisitsNothingInEmptyTables) { EXPECT_THAT(Visit({.kind = StateKind::kOpen}), IsEmpty()); }

TEST_F(InspectionTest, VisitsEachOfManyStatesOnce) {
  OpenMany(alice_);
  const auto opens = Visit({.kind = StateKind::kOpen});
  EXPECT_THAT(opens, SizeIs(kMany));
  EXPECT_THAT(FilesOf(opens), SizeIs(kMany));
  EXPECT_THAT(Visit({.kind = StateKind::kLocks}), IsEmpty());
}

TEST_F(InspectionTest, VisitsTheStatesOfTheClientsThatAreAskedFor) {
  OpenMany(alice_);
  Open(bob_, 1);
  Open(bob_, 2);
  const auto opens = Visit({.kind = StateKind::kOpen, .clients = std::set{bob_}});
  EXPECT_THAT(opens, SizeIs(2));
  EXPECT_TRUE(std::ranges::all_of(opens, [&](const ShownState& each) { return each.client == bob_; }));
  EXPECT_THAT(Visit({.kind = StateKind::kOpen, .clients = std::set{ClientId(4711)}}), IsEmpty());
  EXPECT_THAT(Visit({.kind = StateKind::kOpen, .clients = std::set<ClientId>()}), IsEmpty());
}

TEST_F(InspectionTest, EndsWhenTheVisitorHasSeenEnough) {
  OpenMany(alice_);
  size_t seen = 0;
  VisitStates(state_, kNow, {.kind = StateKind::kOpen}, [&](const ShownState&) { return ++seen < 700; });
  EXPECT_EQ(seen, 700u);
}

// The visitor uses the tables: they are not locked. What it adds and revokes does not hide the states that stay.
TEST_F(InspectionTest, StatesMayComeAndGoDuringTheVisit) {
  OpenMany(alice_);
  std::set<std::string> seen;
  size_t number = kMany;
  VisitStates(state_, kNow, {.kind = StateKind::kOpen}, [&](const ShownState& each) {
    EXPECT_TRUE(seen.insert(std::string(AsText(each.file.object.bytes()))).second) << "it was seen already";
    state_.Run([&](StateTables& tables) { EXPECT_TRUE(tables.files.Revoke(each.id, kNow)); });
    if (number < 2 * kMany) Open(bob_, number++);
    return true;
  });
  for (size_t i = 0; i < kMany; ++i) EXPECT_TRUE(seen.contains("file " + std::to_string(i))) << i;
}

TEST_F(InspectionTest, ALongListOfRangesEndsAStep) {
  constexpr size_t kFiles = 3, kRanges = 5000;
  for (size_t i = 0; i < kFiles; ++i) Lock(Open(alice_, i), i, kRanges);
  const auto locks = Visit({.kind = StateKind::kLocks});
  EXPECT_THAT(FilesOf(locks), SizeIs(kFiles));
  ASSERT_THAT(locks, SizeIs(kFiles));
  for (const ShownState& each : locks) EXPECT_THAT(each.ranges, SizeIs(kRanges));
}

TEST_F(InspectionTest, CountsTheStatesOfEachClient) {
  OpenMany(alice_);
  Lock(Open(bob_, 1), 1, 2);
  std::vector<ShownClient> clients{{.id = alice_}, {.id = bob_}, {.id = ClientId(3)}};
  CountStates(state_, clients);
  EXPECT_THAT((std::vector{clients[0].opens, clients[1].opens, clients[2].opens}), ElementsAre(kMany, 1, 0));
  EXPECT_THAT((std::vector{clients[0].locks, clients[1].locks, clients[2].locks}), ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace penstock::nfs::v4
