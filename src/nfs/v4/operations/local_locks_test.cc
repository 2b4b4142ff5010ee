// Byte-range locks that the server also takes in the kernel, so that local programs on its host see them. They end with
// the client's lease.
#include "fs/test_locks.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/lock_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;

class LocalLockTest : public LockTest {
 protected:
  LocalLockTest() {
    server.faults->OfferLocks([this](bool exclusive) {
      asked.push_back(exclusive);
      return local.Open(exclusive);
    });
  }
  ~LocalLockTest() override {
    server.state.Run([&](StateTables& state) {
      for (const ClientId id : {Client().client(), Other().client()})
        state.files.ForgetClient(id, Ending::kReleased, {});
    });
  }

  void Keep() { Spawn(KeepLeases(server.GetServices(), nullptr)); }

  fs::TestLocks local;
  std::vector<bool> asked;
};

TEST_F(LocalLockTest, WaitsUntilAnotherProgramReleasesItsLease) {
  local.busy = true;
  EXPECT_EQ(TryLock(Client(), open, "locker", 0, 10).status(), NFS4ERR_DELAY);
  EXPECT_EQ(StatusOfTest(Client(), 0, 10), NFS4ERR_DELAY);
  EXPECT_THAT(local.log, IsEmpty());
  EXPECT_EQ(TryLock(Other(), others, "locker", 0, 10).status(), NFS4ERR_DELAY) << "the delayed LOCK left no lock";
  local.busy = false;
  EXPECT_EQ(TryLock(Client(), open, "locker", 0, 10).status(), NFS4_OK);
  EXPECT_EQ(local.log.back(), "exclusive 0-9");
}

TEST_F(LocalLockTest, OpensTheFileForExclusiveLocksIfTheClientMayWrite) {
  LockBy(Client(), open, "locker", 0, 10, READ_LT);
  const stateid4 read_only = OpenBy(Client(), "file", kRead, 0, "reader");
  LockBy(Client(), read_only, "reader", 0, 10, READ_LT);
  EXPECT_EQ(StatusOfTest(Client(), 0, 10), NFS4ERR_DENIED);
  EXPECT_THAT(asked, testing::ElementsAre(true, false, false));
}

// Opening the file for writing would recall delegations and break the leases of local programs.
TEST_F(LocalLockTest, DoesNotOpenTheFileForALockThatTheOpenForbids) {
  const stateid4 read_only = OpenBy(Client(), "file", kRead, 0, "reader");
  EXPECT_EQ(TryLock(Client(), read_only, "reader", 0, 10).status(), NFS4ERR_OPENMODE);
  EXPECT_THAT(asked, IsEmpty());
  const stateid4 lock = LockBy(Client(), read_only, "reader", 0, 10, READ_LT);
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 0, 10, KnownLocker(lock))).status, NFS4ERR_OPENMODE);
  EXPECT_THAT(asked, testing::ElementsAre(false));
}

TEST_F(LocalLockTest, ReopensTheFileWhenAReaderBecomesAWriter) {
  const stateid4 read_only = OpenBy(Client(), "file", kRead, 0, "reader");
  const stateid4 lock = LockBy(Client(), read_only, "reader", 0, 10, READ_LT);
  OpenBy(Client(), "file", kBoth, 0, "reader");
  local.busy = true;
  const auto more = [&] {
    return Run(PutFh(file), Locking(WRITE_LT, 0, 10, KnownLocker({.seqid = 0, .other = lock.other}))).status;
  };
  EXPECT_EQ(more(), NFS4ERR_DELAY);
  EXPECT_THAT(local.log, testing::ElementsAre("shared 0-9"));
  local.busy = false;
  EXPECT_EQ(more(), NFS4_OK);
  EXPECT_THAT(local.log, testing::ElementsAre("shared 0-9", "shared 0-9", "gone", "exclusive 0-9"));
}

// The kernel's time for a lock grows with the locks of the file. Meanwhile no other client waits for the state's lock.
TEST_F(LocalLockTest, LocalLocksAreTakenTestedAndReleasedWithoutTheStatesLock) {
  const NamedFile name = NameOf(file);
  std::vector<bool> changing;
  // Run() within Run() fails an assertion.
  local.on_call = [&] {
    server.state.Run([&](StateTables& state) { changing.push_back(state.files.locks.IsChanging(name)); });
  };
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  const stateid4 latest{.seqid = 0, .other = lock.other};
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 20, 10, KnownLocker(latest))).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Unlocking(latest, 0, 10)).status, NFS4_OK);
  EXPECT_EQ(StatusOfTest(Other(), 0, 10), NFS4_OK);
  EXPECT_THAT(changing, testing::ElementsAre(true, true, true, false));
  local.on_call = nullptr;
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.files.locks.IsChanging(name); }));
}

// The owner's stateid changes while the kernel takes or releases the locks.
TEST_F(LocalLockTest, ARequestThatFailsAfterAllGivesTheLocalLocksBack) {
  stateid4 lock = LockBy(Client(), open, "locker", 0, 10, READ_LT);
  const auto advance = [&] {
    local.on_call = nullptr;
    server.state.Run([&](StateTables& state) {
      (*state.files.Find<LockState>({DialectOf(1), std::nullopt}, lock, NameOf(file).handle))->Advance();
    });
  };
  local.on_call = advance;
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 5, 10, KnownLocker(lock))).status, NFS4ERR_OLD_STATEID);
  EXPECT_THAT(local.log, testing::ElementsAre("shared 0-9", "exclusive 5-14", "shared 5-9", "unlock 10-14"));
  local.log.clear();
  local.on_call = advance;
  ++lock.seqid;
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 0, 5)).status, NFS4ERR_OLD_STATEID);
  EXPECT_THAT(local.log, testing::ElementsAre("unlock 0-4", "shared 0-4"));
  EXPECT_EQ(TryLock(Other(), others, "locker", 0, 1).status(), NFS4ERR_DENIED);
}

// RFC 8881 §8.4.3
TEST_F(LocalLockTest, EndsWithAllStateOfItsClientWhenTheLeaseExpires) {
  LockBy(Client(), open, "locker", 0, 10);
  Pass(server.settings.lease);
  Keep();
  EXPECT_EQ(local.log.back(), "exclusive 0-9");
  Pass(std::chrono::seconds(1));
  Keep();
  EXPECT_EQ(local.log.back(), "gone");
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(Other().Run(PutFh(file), Writing(others)).status, NFS4_OK)
      << "a client without local locks keeps its state";
}

// A grace period may be longer than the lease, because of --grace or of a longer lease before the restart.
TEST_F(LocalLockTest, LostLockIsNotReclaimedInTheSameGracePeriod) {
  LockBy(Client(), open, "locker", 0, 10);
  std::vector<RecoveryRecord> known;
  const auto may_reclaim = [&](const RecoveryRecord& record) {
    return server.state.Run(
        [&](StateTables& state) { return state.clients.grace().MayReclaim(record.owner, record.principal); });
  };
  server.state.Run([&](StateTables& state) {
    for (const ClientId id : {Client().client(), Other().client()}) {
      const v4::Client& client = *state.clients.Find(id);
      known.push_back({client.key(), client.principal});
    }
    state.clients.grace() = Grace(known, server.clock.Now() + 10 * server.settings.lease);
  });
  EXPECT_TRUE(may_reclaim(known[0]));
  PassLease();
  Keep();
  EXPECT_FALSE(may_reclaim(known[0]));
  EXPECT_TRUE(may_reclaim(known[1])) << "no local program can have had its state";
}

// RFC 8881 §8.4.3, the first edge condition: after a restart, the client could reclaim a lock that a local program has
// had meanwhile.
TEST_F(LocalLockTest, StaysUntilTheStoreHasRemovedItsClient) {
  LockBy(Client(), open, "locker", 0, 10);
  PassLease();
  server.recovery_store->full = true;
  Keep();
  EXPECT_EQ(local.log.back(), "exclusive 0-9");
  server.recovery_store->full = false;
  Keep();
  EXPECT_EQ(local.log.back(), "gone");
  EXPECT_THAT(server.recovery_store->Reclaimers(), testing::Not(testing::Contains(OwnerKey(DialectOf(1), "client"))));
}

TEST_F(LocalLockTest, StaysIfItsClientReturnsBeforeItsRemoval) {
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  PassLease();
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4_OK);
  Keep();
  EXPECT_EQ(Run(PutFh(file), Writing(lock)).status, NFS4_OK);
  EXPECT_EQ(local.log.back(), "exclusive 0-9");
}

TEST_F(LocalLockTest, KeepsTheCourtesyPeriodIfProgramsDoNotSeeTheLock) {
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 0, 10)).status, NFS4_OK);
  server.faults->OfferLocks([](bool) { return nullptr; });
  LockBy(Client(), open, "another", 20, 10);
  PassLease();
  Keep();
  EXPECT_EQ(Run(PutFh(file), Writing(open)).status, NFS4_OK);
}

class LocalLock0Test : public Lock0Test {
 protected:
  LocalLock0Test() {
    server.faults->OfferLocks([this](bool exclusive) { return local.Open(exclusive); });
  }
  ~LocalLock0Test() override {
    server.state.Run([&](StateTables& state) { state.files.ForgetClient(client.id(), Ending::kReleased, {}); });
  }
  fs::TestLocks local;
};

// The reply NFS4ERR_DELAY counts in the open-owner's sequence.
TEST_F(LocalLock0Test, WaitsUntilAnotherProgramReleasesItsLease) {
  local.busy = true;
  const uint32_t seqid = client.seqid("owner");
  EXPECT_EQ(LockNew("locker", 0, 10).status(), NFS4ERR_DELAY);
  local.busy = false;
  const auto again = Run0(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(client.id(), open, "locker", seqid)));
  EXPECT_EQ(again.status, NFS4ERR_DELAY) << "a retry gets the first reply";
  EXPECT_EQ(LockNew("locker", 0, 10).status(), NFS4_OK);
}

// RFC 7530 §9.6.3.2
TEST_F(LocalLock0Test, EndsWithAllStateOfItsClientWhenTheLeaseExpires) {
  const stateid4 lock = LockNew("locker", 0, 10).resok4().lock_stateid;
  PassLease();
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_EQ(local.log.back(), "gone");
  EXPECT_EQ(Run0(Op(OP_RENEW, RENEW4args{client.id().value()})).status, NFS4ERR_EXPIRED);
  EXPECT_EQ(Run0(PutFh(file), Writing(lock)).status, NFS4ERR_EXPIRED);
  EXPECT_EQ(Run0(PutFh(file), Writing(open)).status, NFS4ERR_EXPIRED);
}

}  // namespace
}  // namespace penstock::nfs::v4
