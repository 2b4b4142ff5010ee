#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class LocksTest : public FilesTest {
 protected:
  stateid4 alices = OpenBy(alice, "owner", {kBoth, 0});
  stateid4 bobs = OpenBy(bob, "owner", {kBoth, 0});
};

TEST_F(LocksTest, TheSeqidBeginsWithOneAndChangesWithEachCall) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_EQ(lock.seqid, 1u);
  EXPECT_NE(lock.other, alices.other);
  const stateid4 more = LockBy(alices, "locker", {20, 29}, true);
  EXPECT_EQ(more.other, lock.other);
  EXPECT_EQ(more.seqid, 2u);
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {0, kEnd}, DialectOf(1), now), NFS4_OK);
  EXPECT_EQ(files.IdOf(LocksOf(lock)).seqid, 3u);
}

TEST_F(LocksTest, DeniesALockThatConflictsWithAnotherOwner) {
  LockBy(alices, "locker", {100, 199}, true);
  const auto denied = TryLock(bobs, "locker", {150, 160}, false);
  EXPECT_EQ(denied.status, NFS4ERR_DENIED);
  ASSERT_TRUE(denied.conflict);
  EXPECT_EQ(denied.conflict->held, (LockedRange{{100, 199}, true}));
  EXPECT_EQ(denied.conflict->client, alice);
  EXPECT_EQ(denied.conflict->owner, "locker");
  EXPECT_EQ(denied.blocker, alice);
  EXPECT_EQ(TryLock(bobs, "locker", {200, 209}, true).status, NFS4_OK);
}

TEST_F(LocksTest, ADeniedLockLeavesNoState) {
  LockBy(alices, "locker", {0, 9}, true);
  const size_t before = files.size();
  TryLock(bobs, "locker", {0, 9}, true);
  EXPECT_EQ(files.size(), before);
  EXPECT_FALSE(files.locks.FindLockOwner(bob, AsBytes("locker")));
}

TEST_F(LocksTest, LocksOfOneOwnerDoNotConflict) {
  LockBy(alices, "locker", {0, 9}, false);
  LockBy(alices, "locker", {0, 9}, true);
  EXPECT_EQ(TryLock(alices, "another", {0, 9}, false).status, NFS4ERR_DENIED);
  LockBy(alices, "locker", {0, 9}, false);
  EXPECT_EQ(TryLock(alices, "another", {0, 9}, false).status, NFS4_OK);
  EXPECT_EQ(TryLock(alices, "locker", {0, 9}, true).status, NFS4ERR_DENIED);
}

TEST_F(LocksTest, AnOwnerHasOneLockStateidUnderTwoOpens) {
  const stateid4 another = OpenBy(alice, "another owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_EQ(LockBy(another, "locker", {5, 19}, true).other, lock.other);
}

// RFC 8881 §18.10.3
TEST_F(LocksTest, ALockRequiresAnOpenWithItsAccess) {
  const stateid4 reader = OpenBy(alice, "reader", {kRead, 0});
  const stateid4 writer = OpenBy(alice, "writer", {kWrite, 0});
  EXPECT_EQ(TryLock(reader, "locker", {0, 9}, true).status, NFS4ERR_OPENMODE);
  EXPECT_EQ(TryLock(writer, "locker", {0, 9}, false).status, NFS4ERR_OPENMODE);
  const stateid4 lock = LockBy(reader, "locker", {0, 9}, false);
  EXPECT_EQ(files.locks.Lock(LocksOf(lock), {.range = {0, 9}, .exclusive = true}, DialectOf(1), now).status,
            NFS4ERR_OPENMODE);
}

TEST_F(LocksTest, TestLockFindsLocksOfOtherOwners) {
  LockBy(alices, "locker", {100, 149}, true);
  EXPECT_FALSE(files.locks.TestLock(file, alice, AsBytes("locker"), {75, 124}, true));
  EXPECT_FALSE(files.locks.TestLock(file, bob, AsBytes("locker"), {0, 99}, true));
  const auto conflict = files.locks.TestLock(file, bob, AsBytes("locker"), {125, 174}, true);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->held.range, (LockRange{100, 149}));
  EXPECT_FALSE(files.locks.TestLock(other_file, bob, AsBytes("locker"), {0, kEnd}, true));
}

TEST_F(LocksTest, LocksEndWithTheirOpen) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  Close(alices);
  EXPECT_EQ(files.Test(In1(alice), lock), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true).status, NFS4_OK);
  EXPECT_FALSE(files.locks.FindLockOwner(alice, AsBytes("locker")));
}

TEST_F(LocksTest, LocksEndWithTheirClient) {
  LockBy(alices, "locker", {0, 9}, true);
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true).status, NFS4_OK);
}

// RFC 7530 §16.37
TEST_F(LocksTest, ReleaseLockOwnerRefusesAnOwnerThatHoldsLocks) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_EQ(files.locks.ReleaseLockOwner(alice, AsBytes("locker")), NFS4ERR_LOCKS_HELD);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(0), now);
  EXPECT_EQ(files.locks.ReleaseLockOwner(alice, AsBytes("locker")), NFS4_OK);
  EXPECT_EQ(files.Test(In0(), files.IdOf(OpenOf(alices))), NFS4_OK);
  EXPECT_FALSE(files.locks.FindLockOwner(alice, AsBytes("locker")));
  EXPECT_EQ(files.locks.ReleaseLockOwner(alice, AsBytes("nobody")), NFS4_OK);
}

// ---- waiting (RFC 8881 §9.6)

TEST_F(LocksTest, AFreedLockGoesToTheFirstWaiter) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true, true).status, NFS4ERR_DENIED);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);

  const auto denied = TryLock(carols, "locker", {5, 5}, false);
  EXPECT_EQ(denied.status, NFS4ERR_DENIED);
  EXPECT_EQ(denied.conflict->client, bob);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true, true).status, NFS4_OK);
  files.locks.Unlock(LocksOf(files.IdOf(*files.locks.FindLockOwner(bob, AsBytes("locker"))->locks.begin()->second)),
                     {0, 9}, DialectOf(1), now);
  EXPECT_EQ(TryLock(carols, "locker", {5, 5}, false).status, NFS4_OK);
}

TEST_F(LocksTest, AFreedLockIsAnnouncedOnce) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
  files.locks.Unlock(LocksOf(lock), {0, 4}, DialectOf(1), now);
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
  files.locks.Unlock(LocksOf(lock), {5, 9}, DialectOf(1), now);
  const auto notices = files.locks.TakeNotices();
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0].client, bob);
  EXPECT_EQ(notices[0].owner, "locker");
  EXPECT_EQ(notices[0].file, file.handle);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
}

TEST_F(LocksTest, AWaiterIsNotifiedWhenAnOperatorRevokesTheLock) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  EXPECT_TRUE(files.Revoke(lock, now));
  EXPECT_THAT(files.locks.TakeNotices(), SizeIs(1));
  EXPECT_EQ(files.CheckIo(In1(alice), lock, file, true).status, NFS4ERR_ADMIN_REVOKED);
  EXPECT_EQ(files.CheckIo(In1(alice), alices, file, true).status, NFS4_OK) << "the open stays";
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true).status, NFS4_OK);
}

TEST_F(LocksTest, AnOperatorRevokesAnOpenWithItsLocks) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_TRUE(files.Revoke(alices, now));
  for (const stateid4& id : {alices, lock}) {
    EXPECT_EQ(files.CheckIo(In1(alice), id, file, true).status, NFS4ERR_ADMIN_REVOKED);
    EXPECT_FALSE(files.Revoke(id, now));
  }
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true).status, NFS4_OK);
}

// RFC 8881 §18.46.3
TEST_F(LocksTest, TheLossOfAnOpenToAnOperatorIsKnownUntilItsStateidIsFreed) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  EXPECT_TRUE(files.Revoke(alices, now));
  EXPECT_TRUE(files.HasRevokedByOperator(alice));
  EXPECT_FALSE(files.HasRevokedByOperator(bob));
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_FALSE(files.HasState(alice));
  EXPECT_STREQ(files.FindInconsistency(), nullptr);

  EXPECT_EQ(files.Free(In1(bob), alices), NFS4ERR_ADMIN_REVOKED) << "it is not his";
  EXPECT_EQ(files.Free(In1(alice), lock), NFS4_OK);
  EXPECT_EQ(files.Test(In1(alice), lock), NFS4ERR_BAD_STATEID);
  EXPECT_TRUE(files.HasRevokedByOperator(alice));
  EXPECT_EQ(files.Test(In1(alice), alices), NFS4ERR_ADMIN_REVOKED);
  EXPECT_EQ(files.Free(In1(alice), alices), NFS4_OK);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  EXPECT_EQ(files.Test(In1(alice), alices), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(files.Free(In1(alice), alices), NFS4ERR_BAD_STATEID);
}

TEST_F(LocksTest, ARevokedStateidIsKnownWhateverEndsMeanwhile) {
  EXPECT_TRUE(files.Revoke(alices, now));
  for (int i = 0; i < 10'000; ++i) Close(OpenBy(bob, "another", {kRead, 0}));
  EXPECT_EQ(files.Test(In1(alice), alices), NFS4ERR_ADMIN_REVOKED);
  EXPECT_EQ(files.Free(In1(alice), alices), NFS4_OK);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
}

TEST_F(LocksTest, FreeingAnOpenAcknowledgesTheLossOfTheLocksUnderIt) {
  LockBy(alices, "locker", {0, 9}, true);
  EXPECT_TRUE(files.Revoke(LockBy(alices, "another", {10, 19}, true), now));
  EXPECT_TRUE(files.Revoke(alices, now));
  EXPECT_EQ(files.Free(In1(alice), alices), NFS4_OK);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
}

TEST_F(LocksTest, FreeingOrClosingAcknowledgesTheLossOfLocksToAnOperator) {
  for (const bool closed : {false, true}) {
    const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
    EXPECT_TRUE(files.Revoke(lock, now));
    EXPECT_TRUE(files.HasRevokedByOperator(alice));
    if (closed) {
      Close(alices);
    } else {
      EXPECT_EQ(files.Free(In1(alice), lock), NFS4_OK);
    }
    EXPECT_FALSE(files.HasRevokedByOperator(alice)) << closed;
    EXPECT_EQ(files.Test(In1(alice), lock), NFS4ERR_BAD_STATEID);
  }
}

TEST_F(LocksTest, NoLossIsKnownOfAStateidWithoutLocksOrOfAClientThatHasEnded) {
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  EXPECT_TRUE(files.Revoke(lock, now));
  EXPECT_FALSE(files.HasRevokedByOperator(alice)) << "a stateid without locks";
  EXPECT_TRUE(files.Revoke(alices, now));
  EXPECT_TRUE(files.HasRevokedByOperator(alice));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  EXPECT_EQ(files.Test(In1(alice), alices), NFS4ERR_BAD_STATEID);
}

TEST_F(LocksTest, AClientOfVersion40HasNoLossToAcknowledge) {
  const stateid4 open = OpenBy(ClientId(0x0303), "of 4.0", {kRead, 0}, 0);
  EXPECT_TRUE(files.Revoke(open, now));
  EXPECT_FALSE(files.HasRevokedByOperator(ClientId(0x0303)));
  EXPECT_EQ(StatusOfRead(In0(), open), NFS4ERR_ADMIN_REVOKED);
}

TEST_F(LocksTest, AWaiterIsNotifiedWhenTheHolderClosesOrEnds) {
  for (const bool closed : {true, false}) {
    LockBy(alices, "locker", {0, 9}, true);
    TryLock(bobs, "locker", {0, 9}, true, true);
    if (closed) {
      Close(alices);
    } else {
      files.ForgetClient(alice, Ending::kExpired, now);
    }
    EXPECT_THAT(files.locks.TakeNotices(), SizeIs(1));
    alices = OpenBy(alice, "owner", {kBoth, 0});
    EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true, false).status, NFS4_OK);
    files.locks.Unlock(*files.locks.FindLockOwner(bob, AsBytes("locker"))->locks.begin()->second, {0, 9}, DialectOf(1),
                       now);
  }
}

TEST_F(LocksTest, ANotifiedWaiterThatDoesNotAskAgainLosesItsTurn) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  now += std::chrono::seconds(4);
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true).status, NFS4ERR_DENIED);
  now += std::chrono::seconds(1);
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true).status, NFS4_OK);
}

TEST_F(LocksTest, TheNextWaiterIsNotifiedWhenATurnIsOver) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  EXPECT_EQ(files.locks.TakeNotices()[0].client, bob);
  TryLock(carols, "locker", {0, 9}, true, true);
  now += std::chrono::seconds(4);
  files.locks.EndTurns(now);
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
  now += std::chrono::seconds(1);
  files.locks.EndTurns(now);
  const auto notices = files.locks.TakeNotices();
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0].client, ClientId(3));
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true, true).status, NFS4_OK);
}

TEST_F(LocksTest, ConflictingWaitersAreNotifiedOneAfterAnother) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  TryLock(carols, "locker", {0, 9}, true, true);
  TryLock(carols, "another", {0, 9}, true, true);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  for (const char* owner : {"locker", "locker", "another"}) {
    const auto notices = files.locks.TakeNotices();
    ASSERT_THAT(notices, SizeIs(1));
    EXPECT_EQ(notices[0].owner, owner);
    now += std::chrono::seconds(5);
    files.locks.EndTurns(now);
  }
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
}

// The server cannot notify a client of version 4.0. Such a client must ask again within a lease time.
TEST_F(LocksTest, AWaiterThatGetsNoNoticeKeepsItsPlaceForALease) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  const Locks::LockRequest waiting{.range = {0, 9}, .exclusive = true, .blocking = true};
  files.locks.Lock(OpenOf(bobs), AsBytes("locker"), waiting, DialectOf(0), now);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(0), now);
  EXPECT_THAT(files.locks.TakeNotices(), IsEmpty());
  now += std::chrono::seconds(89);
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true).status, NFS4ERR_DENIED);
  now += std::chrono::seconds(1);
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true).status, NFS4_OK);
}

TEST_F(LocksTest, AWaiterThatGivesUpLosesItsPlace) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, true, true);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, true, false).status, NFS4ERR_DENIED);
  files.locks.Unlock(LocksOf(lock), {0, 9}, DialectOf(1), now);
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, true).status, NFS4_OK);
}

TEST_F(LocksTest, AWaiterThatIsStillBlockedBlocksNoOtherOwner) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, kEnd}, true, true);
  EXPECT_EQ(TryLock(carols, "locker", {20, 29}, true).status, NFS4_OK);
}

TEST_F(LocksTest, AllWaitingReadersAreNotifiedAtOnce) {
  const stateid4 carols = OpenBy(ClientId(3), "owner", {kBoth, 0});
  const stateid4 lock = LockBy(alices, "locker", {0, 9}, true);
  TryLock(bobs, "locker", {0, 9}, false, true);
  TryLock(carols, "locker", {0, 9}, false, true);
  LockBy(alices, "locker", {0, 9}, false);  // a downgrade
  EXPECT_THAT(files.locks.TakeNotices(), SizeIs(2));
  EXPECT_EQ(TryLock(carols, "locker", {0, 9}, false, true).status, NFS4_OK);
  EXPECT_EQ(TryLock(bobs, "locker", {0, 9}, false, true).status, NFS4_OK);
  EXPECT_EQ(files.Test(In1(alice), lock), NFS4ERR_OLD_STATEID);
}

// ---- limits

class BoundedLocksTest : public FilesTest {
 protected:
  BoundedLocksTest() : FilesTest({.ranges_per_client = 4}) {}
  stateid4 open = OpenBy(alice, "owner", {kBoth, 0});
};

TEST_F(BoundedLocksTest, LimitsTheRangesOfAClient) {
  stateid4 lock = LockBy(open, "locker", {0, 9}, true);
  LockBy(open, "locker", {20, 29}, true);
  LockBy(open, "locker", {40, 49}, true);
  EXPECT_EQ(TryLock(open, "locker", {60, 69}, true).status, NFS4ERR_DELAY);
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {3, 5}, DialectOf(1), now), NFS4_OK);
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {23, 25}, DialectOf(0), now), NFS4ERR_RESOURCE);
  EXPECT_EQ(files.locks.Unlock(LocksOf(lock), {0, kEnd}, DialectOf(1), now), NFS4_OK);
  EXPECT_EQ(TryLock(open, "another", {0, 9}, true).status, NFS4_OK);
}

// ---- comparison with a table of octets and owners

TEST_F(LocksTest, RandomLocksOfManyOwnersNeverConflict) {
  constexpr uint64_t kOctets = 32;
  constexpr size_t kOwners = 4;
  const std::string_view names[kOwners] = {"1", "2", "3", "4"};
  std::mt19937_64 random(4711);
  int held[kOwners][kOctets] = {};
  for (int step = 0; step < 20000; ++step) {
    const size_t owner = random() % kOwners;
    const stateid4& open = owner % 2 ? bobs : alices;
    const ClientId client = owner % 2 ? bob : alice;
    const uint64_t first = random() % kOctets;
    const uint64_t last = first + random() % (kOctets - first);
    const int kind = static_cast<int>(random() % 3);
    if (kind == 0) {
      if (LockOwner* const known = files.locks.FindLockOwner(client, AsBytes(names[owner]))) {
        files.locks.Unlock(*known->locks.begin()->second, {first, last}, DialectOf(1), now);
      }
      for (uint64_t at = first; at <= last; ++at) held[owner][at] = 0;
      continue;
    }
    bool free = true;
    for (size_t other = 0; other < kOwners; ++other) {
      for (uint64_t at = first; at <= last && other != owner; ++at) {
        free = free && held[other][at] != 2 && !(held[other][at] == 1 && kind == 2);
      }
    }
    ASSERT_EQ(TryLock(open, names[owner], {first, last}, kind == 2).status, free ? NFS4_OK : NFS4ERR_DENIED);
    for (uint64_t at = first; at <= last && free; ++at) held[owner][at] = kind;
  }
}

}  // namespace
}  // namespace penstock::nfs::v4
