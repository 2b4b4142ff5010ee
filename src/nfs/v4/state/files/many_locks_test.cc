// Tests of releases of more locks than one visit to the tables may release.
#include <memory>
#include <string>

#include "fs/test_locks.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kAtOnce = Locks::kMostAtOnce;

class ManyLocksTest : public FilesTest {
 protected:
  // Takes `count` locks of single octets that do not touch, by one owner. Returns their stateid.
  stateid4 LockMany(const stateid4& open, size_t count, std::string_view owner = "locker") {
    stateid4 id{};
    for (size_t i = 0; i < count; ++i) id = LockBy(open, owner, {2 * i, 2 * i}, true);
    return id;
  }
  void LockByManyOwners(const stateid4& open, size_t count) {
    for (size_t i = 0; i < count; ++i) LockBy(open, "locker " + std::to_string(i), {2 * i, 2 * i}, true);
  }

  const stateid4 alices = OpenBy(alice, "owner", {kBoth, 0});
  const stateid4 bobs = OpenBy(bob, "owner", {kBoth, 0});
};

TEST_F(ManyLocksTest, AVisitUnlocksAtMostKMostAtOnceRangesOfAnOwner) {
  const stateid4 id = LockMany(alices, 3 * kAtOnce + 1);
  LockBy(bobs, "locker", {1, 1}, true);
  for (size_t left = 3 * kAtOnce + 1; left > kAtOnce; left -= kAtOnce) {
    ASSERT_EQ(LocksOf(id).ranges.size(), left);
    EXPECT_TRUE(files.locks.UnlockPart(LocksOf(id), {0, kEnd}));
    ASSERT_STREQ(files.FindInconsistency(), nullptr);
  }
  EXPECT_FALSE(files.locks.UnlockPart(LocksOf(id), {0, kEnd})) << "the rest is for Unlock()";
  EXPECT_EQ(LocksOf(id).ranges.size(), 1u);
  EXPECT_EQ(files.locks.Unlock(LocksOf(id), {0, kEnd}, DialectOf(1), now), NFS4_OK);
  EXPECT_EQ(files.locks.ranges(), 1u) << "the other owner's lock stays";
}

TEST_F(ManyLocksTest, APartialUnlockStaysWithinItsRangeAndKeepsTheSeqid) {
  const stateid4 id = LockMany(alices, 3 * kAtOnce);
  EXPECT_FALSE(files.locks.UnlockPart(LocksOf(id), {0, 2 * kAtOnce - 1})) << "not too many ranges";
  const uint64_t first = 2 * kAtOnce;
  EXPECT_TRUE(files.locks.UnlockPart(LocksOf(id), {first, kEnd}));
  EXPECT_EQ(LocksOf(id).seqid, id.seqid);
  EXPECT_EQ(TryLock(bobs, "locker", {first - 2, first - 2}, true).status, NFS4ERR_DENIED);
  EXPECT_EQ(TryLock(bobs, "locker", {first, 4 * kAtOnce - 1}, true).status, NFS4_OK);
  EXPECT_EQ(TryLock(bobs, "locker", {4 * kAtOnce, 4 * kAtOnce}, true).status, NFS4ERR_DENIED);
}

TEST_F(ManyLocksTest, APartOfARemovalAlsoUnlocksForLocalPrograms) {
  fs::TestLocks local;
  const auto opened = *local.Open(true);
  stateid4 id{};
  for (uint64_t i = 0; i <= kAtOnce; ++i) {
    id = LockFully(alices, "locker", {.range = {2 * i, 2 * i}, .exclusive = true, .local = opened}).stateid;
  }
  size_t left = 10;
  EXPECT_FALSE(files.locks.RemovePart(LocksOf(id), Ending::kReleased, left));
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(local.log.back(), "unlock 0-18");
  files.ForgetClient(alice, Ending::kReleased, now);
}

TEST_F(ManyLocksTest, AVisitRemovesAtMostKMostAtOnceLockStateidsUnderAnOpen) {
  constexpr size_t kOwners = 2 * kAtOnce;
  LockByManyOwners(alices, kOwners);
  EXPECT_TRUE(files.opens.ClosePart(OpenOf(alices)));
  // Each owner counts twice: as a stateid and with its range.
  EXPECT_EQ(files.locks.ranges(), kOwners - kAtOnce / 2);
  while (files.opens.ClosePart(OpenOf(alices))) {
  }
  EXPECT_LE(files.locks.ranges(), kAtOnce / 2);
  EXPECT_GT(files.locks.ranges(), 0u) << "the rest is for Close()";
  Close(alices);
  EXPECT_EQ(files.locks.ranges(), 0u);
}

TEST_F(ManyLocksTest, AnOpenWithFewLocksIsNotClosedInParts) {
  LockMany(alices, kAtOnce - 1);
  EXPECT_FALSE(files.opens.ClosePart(OpenOf(alices)));
  EXPECT_EQ(files.locks.ranges(), kAtOnce - 1);
}

TEST_F(ManyLocksTest, AnOpenThatIsBeingClosedIsNotChanged) {
  LockMany(alices, 2 * kAtOnce);
  ASSERT_TRUE(files.opens.ClosePart(OpenOf(alices)));
  EXPECT_EQ(TryOpen(alice, "owner", {kRead, 0}).status, NFS4ERR_DELAY);
  EXPECT_EQ(files.opens.Downgrade(OpenOf(alices), {kRead, 0}), NFS4ERR_DELAY);
  EXPECT_EQ(OpenOf(alices).seqid, alices.seqid);
  EXPECT_EQ(TryOpen(alice, "another", {kRead, 0}).status, NFS4_OK);
}

TEST_F(ManyLocksTest, AClientIsForgottenInParts) {
  LockMany(alices, 2 * kAtOnce);
  const stateid4 more = OpenBy(alice, "another", {kBoth, 0});
  for (size_t i = 0; i < kAtOnce; ++i) LockBy(more, "locker " + std::to_string(i), {2 * i + 1, 2 * i + 1}, true);
  size_t parts = 0, before = files.locks.ranges();
  while (files.ForgetPart(alice, Ending::kExpired, now)) {
    ++parts;
    EXPECT_LE(before - files.locks.ranges(), kAtOnce);
    before = files.locks.ranges();
    ASSERT_STREQ(files.FindInconsistency(), nullptr);
  }
  EXPECT_GE(parts, 3u);
  EXPECT_FALSE(files.HasState(alice));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_TRUE(files.HasState(bob));
}

TEST_F(ManyLocksTest, AFileIsChangingUntilTheLastOfItsChangesHasEnded) {
  EXPECT_FALSE(files.locks.IsChanging(file));
  files.locks.BeginChange(file);
  files.locks.BeginChange(file);
  files.locks.EndChange(file);
  EXPECT_TRUE(files.locks.IsChanging(file));
  EXPECT_FALSE(files.locks.IsChanging(other_file));
  files.locks.EndChange(file);
  EXPECT_FALSE(files.locks.IsChanging(file));
}

}  // namespace
}  // namespace penstock::nfs::v4
