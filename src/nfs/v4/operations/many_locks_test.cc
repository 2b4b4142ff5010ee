// Tests of requests that release many locks: they take several turns of the loop, and nobody sees a part of it.
#include "nfs/v4/operations/many_locks.h"

#include "base/test_loop.h"
#include "nfs/v4/operations/lock_test.h"

namespace penstock::nfs::v4 {
namespace {

class ManyLocks0Test : public Lock0Test {
 protected:
  static constexpr uint32_t kLocks = 4 * Locks::kMostAtOnce;

  // Takes kLocks locks of single octets, and lets all further requests take turns on a loop.
  void LockMany() {
    lock = LockNew("locker", 0, 1).resok4().lock_stateid;
    for (uint32_t i = 1; i < kLocks; ++i) lock = LockMore(lock, seqid++, 2 * i, 1).resok4().lock_stateid;
    server.peer.loop = &loop;
  }
  ~ManyLocks0Test() override { server.peer.loop = nullptr; }
  size_t ranges() {
    return server.state.Run([](StateTables& state) { return state.files.locks.ranges(); });
  }
  void RunHandlers(int count) {
    for (int i = 0; i < count; ++i) {
      loop.context().restart();
      loop.context().run_one();
    }
  }
  // Begins `release`. Expects that each turn of the loop releases a few locks, and that LOCKT and LOCK of other owners
  // wait until all are released.
  template <class Operation>
  void ExpectReleaseInParts(const Operation& release) {
    const bool& released = server.Begin(server.Encode(0, PutFh(file), release));
    EXPECT_FALSE(released);
    const bool& tested =
        server.Begin(server.Encode(0, PutFh(file), TestingLock(client.id(), "tester", 2 * (kLocks - 1), 1)));
    size_t before = ranges();
    EXPECT_GE(before, kLocks - Locks::kMostAtOnce);
    EXPECT_TRUE(TurnUntil(loop, [&] {
      EXPECT_TRUE(released || !tested) << "LOCKT must not see a part of the release";
      EXPECT_LE(before - ranges(), Locks::kMostAtOnce);
      before = ranges();
      return released && tested;
    }));
    EXPECT_EQ(ranges(), 0u);
  }

  Loop loop;
  stateid4 lock{};
  uint32_t seqid = 1;
};

TEST_F(ManyLocks0Test, LockuOfManyRangesTakesSeveralTurns) {
  LockMany();
  ExpectReleaseInParts(Unlocking(lock, 0, UINT64_MAX, seqid));
}

TEST_F(ManyLocks0Test, CloseWithManyLocksTakesSeveralTurns) {
  LockMany();
  ExpectReleaseInParts(Closing(open, client.seqid("owner")));
}

TEST_F(ManyLocks0Test, LockAndLocktWaitWhileTheFileIsChanging) {
  server.peer.loop = &loop;
  const NamedFile name = NameOf(file);
  server.state.Run([&](StateTables& state) { state.files.locks.BeginChange(name); });
  const bool& tested = server.Begin(server.Encode(0, PutFh(file), TestingLock(client.id(), "tester", 0, 1)));
  const uint32_t next = client.seqid("owner");
  const bool& locked = server.Begin(
      server.Encode(0, PutFh(file), Locking(WRITE_LT, 0, 1, NewLocker(client.id(), open, "locker", next, 0))));
  RunHandlers(20);
  EXPECT_FALSE(tested);
  EXPECT_FALSE(locked);
  EXPECT_EQ(ranges(), 0u);
  server.state.Run([&](StateTables& state) { state.files.locks.EndChange(name); });
  EXPECT_TRUE(TurnUntil(loop, [&] { return tested && locked; }));
  EXPECT_EQ(ranges(), 1u);
}

TEST_F(ManyLocks0Test, ARefusedLockuReleasesNothing) {
  LockMany();
  server.peer.loop = nullptr;
  EXPECT_EQ(Unlock(lock, seqid + 1, 0, UINT64_MAX).status, NFS4ERR_BAD_SEQID);
  stateid4 old = lock;
  old.seqid -= 1;
  EXPECT_EQ(Unlock(old, seqid++, 0, UINT64_MAX).status, NFS4ERR_OLD_STATEID);
  EXPECT_EQ(ranges(), kLocks);
  EXPECT_EQ(Unlock(lock, seqid++, 0, UINT64_MAX).status, NFS4_OK);
  EXPECT_EQ(ranges(), 0u);
}

TEST_F(ManyLocks0Test, ARefusedCloseReleasesNothing) {
  LockMany();
  server.peer.loop = nullptr;
  EXPECT_EQ(Run0(PutFh(file), Closing(open, client.seqid("owner") + 1)).status, NFS4ERR_BAD_SEQID);
  EXPECT_EQ(ranges(), kLocks);
  EXPECT_EQ(Run0(PutFh(file), Closing(open, client.seqid("owner"))).status, NFS4_OK);
  EXPECT_EQ(ranges(), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v4
