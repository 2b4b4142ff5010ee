// Tests of byte-range locks that programs on the server's host see.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/test_locks.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

class LocallySeenLocksTest : public FilesTest {
 protected:
  ~LocallySeenLocksTest() override { files.ForgetClient(alice, Ending::kReleased, now); }
  std::shared_ptr<fs::LocalLocks> Opened(bool exclusive = true) { return *local.Open(exclusive); }
  Locks::LockResult TryFirst(const LockRange& range, bool exclusive, bool blocking = false) {
    return LockFully(alices, "locker",
                     {.range = range, .exclusive = exclusive, .blocking = blocking, .local = Opened()});
  }

  // Takes a shared lock with local locks that can only be shared: their descriptor can only read.
  stateid4 ShareFirst(const LockRange& range) {
    const auto shared = LockFully(alices, "locker", {.range = range, .local = Opened(false)});
    EXPECT_EQ(shared.status, NFS4_OK);
    return shared.stateid;
  }

  stateid4 alices = OpenBy(alice, "owner", {kBoth, 0});
  stateid4 bobs = OpenBy(bob, "owner", {kBoth, 0});
  fs::TestLocks local;
  std::optional<fs::LocalLocks::Conflict>& programs = local.programs;
  std::vector<std::string>& log = local.log;
};

TEST_F(LocallySeenLocksTest, LocalLocksFollowTheLocksOfTheClient) {
  EXPECT_TRUE(files.locks.NeedsLocalLocks(file, alice, AsBytes("locker"), true));
  const auto first = TryFirst({0, 9}, true);
  ASSERT_EQ(first.status, NFS4_OK);
  EXPECT_FALSE(files.locks.NeedsLocalLocks(file, alice, AsBytes("locker"), true));
  LockBy(alices, "locker", {5, 20}, false);
  EXPECT_EQ(files.locks.Unlock(LocksOf(first.stateid), {7, 8}, DialectOf(1), now), NFS4_OK);
  EXPECT_THAT(log, testing::ElementsAre("exclusive 0-9", "shared 5-20")) << "the caller has unlocked 7-8";
  Close(alices);
  EXPECT_EQ(log.back(), "gone");
}

// A FREE_STATEID on another connection runs between the caller's NeedsLocalLocks() and its Lock().
TEST_F(LocallySeenLocksTest, LocalLocksMustBeOpenedAgainIfTheOwnersLocksWereFreed) {
  const stateid4 lock = TryFirst({0, 9}, true).stateid;
  EXPECT_FALSE(files.locks.NeedsLocalLocks(file, alice, AsBytes("locker"), true));
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now), NFS4_OK);
  EXPECT_EQ(files.Free(In1(alice), {.seqid = 0, .other = lock.other}), NFS4_OK);
  programs = {.first = 0, .last = 9, .exclusive = true, .process = 77};
  Locks::LockRequest request{.range = {0, 9}, .exclusive = true, .is_local_open = false};
  EXPECT_TRUE(files.locks.Lock(OpenOf(alices), AsBytes("locker"), request, DialectOf(1), now).needs_local);
  EXPECT_FALSE(files.locks.FindLockOwner(alice, AsBytes("locker"))) << "the refused LOCK must not create a lock-owner";
  EXPECT_EQ(TryFirst({0, 9}, true).status, NFS4ERR_DENIED);
}

TEST_F(LocallySeenLocksTest, ALockThatALocalProgramHoldsIsDeniedAndTheProgramIsNamed) {
  programs = {.first = 100, .last = 199, .exclusive = true, .process = 77};
  const auto denied = TryFirst({150, 160}, false, true);
  EXPECT_EQ(denied.status, NFS4ERR_DENIED);
  ASSERT_TRUE(denied.conflict);
  EXPECT_EQ(denied.conflict->held, (LockedRange{{100, 199}, true}));
  EXPECT_EQ(denied.conflict->owner, "process 77 on the server");
  EXPECT_FALSE(denied.blocker) << "a local program holds the lock, so no client blocks it";
  EXPECT_EQ(log, std::vector<std::string>{"gone"});
  EXPECT_FALSE(files.locks.FindLockOwner(alice, AsBytes("locker")));
  // The denied client did not enter the queue, so it does not hold up another one.
  programs.reset();
  EXPECT_EQ(TryLock(bobs, "locker", {150, 160}, true).status, NFS4_OK);
}

TEST_F(LocallySeenLocksTest, ADeniedChangeLeavesTheHeldLocksUnchanged) {
  const auto first = TryFirst({0, 9}, true);
  programs = {.first = 100, .last = 199, .exclusive = false, .process = 0};
  const auto denied = TryLock(alices, "locker", {5, 105}, true);
  EXPECT_EQ(denied.status, NFS4ERR_DENIED);
  EXPECT_EQ(denied.conflict->owner, "a program on the server");
  EXPECT_EQ(files.IdOf(LocksOf(first.stateid)).seqid, 1u);
  EXPECT_EQ(TryLock(bobs, "locker", {5, 5}, false).status, NFS4ERR_DENIED);
  EXPECT_EQ(TryLock(bobs, "locker", {10, 10}, true).status, NFS4_OK);
  EXPECT_THAT(log, testing::ElementsAre("exclusive 0-9"));
}

// Conflicts between clients are checked before the local locks.
TEST_F(LocallySeenLocksTest, ALockDeniedByAnotherClientIsNotTakenLocally) {
  LockBy(bobs, "locker", {0, 9}, true);
  EXPECT_EQ(TryFirst({5, 6}, false).status, NFS4ERR_DENIED);
  EXPECT_THAT(log, testing::ElementsAre("gone"));
}

TEST_F(LocallySeenLocksTest, TestLockFindsTheLocksOfLocalPrograms) {
  programs = {.first = 100, .last = 199, .exclusive = true, .process = 77};
  const auto opened = Opened();
  EXPECT_FALSE(files.locks.LocalLocksOf(file, alice, AsBytes("locker"), nullptr));
  EXPECT_TRUE(Locks::TestLocally(opened.get(), {100, 100}, false));
  EXPECT_FALSE(Locks::TestLocally(opened.get(), {200, 200}, false));
  EXPECT_FALSE(Locks::TestLocally(nullptr, {100, 100}, false));
  ASSERT_EQ(TryFirst({0, 9}, true).status, NFS4_OK);
  const auto own = files.locks.LocalLocksOf(file, alice, AsBytes("locker"), nullptr);
  ASSERT_TRUE(own);
  EXPECT_TRUE(Locks::TestLocally(own.get(), {100, 100}, false));
}

TEST_F(LocallySeenLocksTest, ALockAsksForTheLocalLocksBeforeItChangesAnything) {
  const auto opened = Opened();
  Locks::LockRequest request{.range = {0, 9}, .exclusive = true, .local = opened};
  const auto first = files.locks.Lock(OpenOf(alices), AsBytes("locker"), request, DialectOf(1), now);
  EXPECT_EQ(first.asks, opened);
  EXPECT_FALSE(files.locks.FindLockOwner(alice, AsBytes("locker")));
  EXPECT_EQ(files.locks.ranges(), 0u);
  EXPECT_TRUE(log.empty());
  request.answer = Locks::LocalAnswer{};
  EXPECT_EQ(files.locks.Lock(OpenOf(alices), AsBytes("locker"), request, DialectOf(1), now).status, NFS4_OK);
  request = {.range = {20, 29}, .exclusive = true};
  EXPECT_EQ(files.locks.Lock(OpenOf(alices), AsBytes("locker"), request, DialectOf(1), now).asks, opened);
  EXPECT_EQ(files.locks.ranges(), 1u);
}

TEST_F(LocallySeenLocksTest, ARequestThatFailsGivesTheOwnersLocalLocksBack) {
  const stateid4 lock = TryFirst({0, 9}, true).stateid;
  LockBy(alices, "locker", {20, 29}, false);
  log.clear();
  Locks::RestoreLocally(LocksOf(lock), {5, 24});
  EXPECT_THAT(log, testing::ElementsAre("exclusive 5-9", "unlock 10-19", "shared 20-24"));
}

TEST_F(LocallySeenLocksTest, AClientHasLocalLocksWhileItHoldsARangeThatProgramsSee) {
  LockBy(alices, "another", {40, 49}, true);
  EXPECT_FALSE(files.locks.HasLocalLocks(alice)) << "local programs see none of the client's locks";
  const stateid4 lock = TryFirst({0, 9}, true).stateid;
  LockBy(alices, "locker", {20, 29}, true);
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now), NFS4_OK);
  EXPECT_TRUE(files.locks.HasLocalLocks(alice));
  EXPECT_FALSE(files.locks.HasLocalLocks(bob));
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {0, kEnd}, DialectOf(1), now), NFS4_OK);
  EXPECT_FALSE(files.locks.HasLocalLocks(alice));
  LockBy(alices, "locker", {0, 9}, true);
  EXPECT_TRUE(files.locks.HasLocalLocks(alice));
  Close(alices);
  EXPECT_FALSE(files.locks.HasLocalLocks(alice));
}

TEST_F(LocallySeenLocksTest, LocalLocksEndWithTheirClient) {
  ASSERT_EQ(TryFirst({0, 9}, true).status, NFS4_OK);
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_EQ(log.back(), "gone");
}

// The owner's ranges stay locked for local programs during the replacement.
TEST_F(LocallySeenLocksTest, AnExclusiveLockReplacesLocalLocksThatCanOnlyBeShared) {
  const stateid4 lock = ShareFirst({0, 9});
  LockBy(alices, "locker", {20, 29}, false);
  EXPECT_FALSE(Locks::NeedsLocalLocks(LocksOf(lock), false));
  EXPECT_TRUE(Locks::NeedsLocalLocks(LocksOf(lock), true));
  log.clear();
  EXPECT_EQ(TryFirst({5, 14}, true).status, NFS4_OK);
  EXPECT_THAT(log, testing::ElementsAre("shared 0-9", "shared 20-29", "gone", "exclusive 5-14"));
  EXPECT_FALSE(Locks::NeedsLocalLocks(LocksOf(lock), true));
}

TEST_F(LocallySeenLocksTest, LocalLocksThatCanOnlyBeSharedReplaceNone) {
  local.writable = false;
  const stateid4 lock = ShareFirst({0, 9});
  EXPECT_EQ(TryFirst({5, 14}, true).status, NFS4_OK);
  EXPECT_THAT(log, testing::ElementsAre("shared 0-9", "shared 5-14", "gone"));
  local.writable = true;
  log.clear();
  EXPECT_EQ(TryFirst({30, 39}, true).status, NFS4_OK);
  EXPECT_THAT(log, testing::ElementsAre("shared 0-4", "shared 5-14", "gone", "exclusive 5-14", "exclusive 30-39"));
  EXPECT_FALSE(Locks::NeedsLocalLocks(LocksOf(lock), true));
}

TEST_F(LocallySeenLocksTest, MoreThan64LocalLocksAreNotReplaced) {
  const stateid4 lock = ShareFirst({0, 0});
  for (uint64_t at = 1; at < 64; ++at) LockBy(alices, "locker", {10 * at, 10 * at}, false);
  EXPECT_TRUE(Locks::NeedsLocalLocks(LocksOf(lock), true));
  LockBy(alices, "locker", {1000, 1000}, false);
  EXPECT_FALSE(Locks::NeedsLocalLocks(LocksOf(lock), true));
}

}  // namespace
}  // namespace penstock::nfs::v4
