#include "nfs/v4/operations/lock_test.h"
#include "nfs/v4/operations/lease.h"
#include "rpc/call_order.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Over RDMA, the server pulls the payload of a WRITE while it already executes calls that it received later.
TEST_F(LockTest, OperationsThatReleaseStateWaitForEarlierCallsOnTheFile) {
  rpc::CallOrder order;
  server.peer.order = &order;
  const nfs_fh4 other = MakeFile("other");
  const auto hash = [&](const nfs_fh4& handle) { return NamedFileHash()(NameOf(handle)); };
  const auto expect_waits = [&](const auto& operation, nfs_opnum4 number) {
    std::optional<rpc::CallOrder::Place> earlier(order.Enter(rpc::Xid(1)));
    const bool& ended = server.Begin(server.Encode(0, PutFh(file), operation));
    EXPECT_FALSE(ended) << XdrName(number);
    earlier.reset();
    EXPECT_TRUE(ended) << XdrName(number);
    const rpc::CallOrder::Place elsewhere = order.Enter(rpc::Xid(2));
    order.NoteSubject(rpc::Xid(2), hash(other));
    EXPECT_TRUE(server.Begin(server.Encode(0, PutFh(file), operation))) << XdrName(number);
  };
  expect_waits(Op(OP_CLOSE, CLOSE4args{}), OP_CLOSE);
  expect_waits(Op(OP_DELEGRETURN, DELEGRETURN4args{}), OP_DELEGRETURN);
  expect_waits(Op(OP_LOCKU, LOCKU4args{.locktype = WRITE_LT, .seqid = 0, .lock_stateid = {}, .offset = 0, .length = 1}),
               OP_LOCKU);
  expect_waits(Op(OP_OPEN_DOWNGRADE, OPEN_DOWNGRADE4args{}), OP_OPEN_DOWNGRADE);
  const rpc::CallOrder::Place earlier = order.Enter(rpc::Xid(1));
  EXPECT_TRUE(server.Begin(server.Encode(0, PutFh(file), GetAttr({FATTR4_SIZE})))) << "GETATTR releases no state";
  server.peer.order = nullptr;
}

TEST_F(LockTest, ConflictsWithOtherClients) {
  LockBy(Client(), open, "locker", 25, 75);
  auto reply = Other().Run(PutFh(file), TestingLock(Other().client(), "tester", 50, 10));
  const auto tested = reply.Skip().Next<LOCKT4res>();
  ASSERT_EQ(tested.status(), NFS4ERR_DENIED);
  EXPECT_EQ(tested.denied().offset, 25u);
  EXPECT_EQ(tested.denied().length, 75u);
  EXPECT_EQ(tested.denied().locktype, WRITE_LT);
  EXPECT_EQ(tested.denied().owner.clientid, Client().client().value());
  EXPECT_EQ(AsText(tested.denied().owner.owner.bytes()), "locker");
  EXPECT_EQ(StatusOfTest(Other(), 0, 25), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), TestingLock(Client().client(), "locker", 0, kWholeFile)).status, NFS4_OK);
}

// RFC 8881 §18.10.3
TEST_F(LockTest, BelongsToTheSessionsClientNotToTheNamedOne) {
  const auto lock = Locking(WRITE_LT, 0, 10, NewLocker(ClientId(4711), open, "locker"));
  ASSERT_EQ(Run(PutFh(file), lock).status, NFS4_OK);
  auto reply = Other().Run(PutFh(file), TestingLock(ClientId(4711), "locker", 0, 10));
  EXPECT_EQ(reply.Skip().Next<LOCKT4res>().denied().owner.clientid, Client().client().value());
}

TEST_F(LockTest, DenialDescribesTheConflictingLock) {
  LockBy(Client(), open, "locker", 0, kWholeFile, READ_LT);
  EXPECT_EQ(TryLock(Other(), others, "locker", 5, 5, READ_LT).status(), NFS4_OK);
  const auto denied = TryLock(Other(), others, "another", 5, 5);
  ASSERT_EQ(denied.status(), NFS4ERR_DENIED);
  EXPECT_EQ(denied.denied().length, kWholeFile);
  EXPECT_EQ(denied.denied().locktype, READ_LT);
}

TEST_F(LockTest, RejectsInvalidRanges) {
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{25, 0}, {100, kWholeFile - 1}}) {
    EXPECT_EQ(TryLock(Client(), open, "locker", offset, length).status(), NFS4ERR_INVAL);
    EXPECT_EQ(StatusOfTest(Client(), offset, length), NFS4ERR_INVAL);
  }
  const stateid4 lock = LockBy(Client(), open, "locker", 0, kWholeFile);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 25, 0)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 100, kWholeFile - 1)).status, NFS4ERR_INVAL);
}

TEST_F(LockTest, UnlocksAPartOfARange) {
  const stateid4 lock = LockBy(Client(), open, "locker", 100, 100);
  auto reply = Run(PutFh(file), Unlocking(lock, 125, 50));
  const stateid4 after = reply.Skip().Next<LOCKU4res>().lock_stateid();
  EXPECT_EQ(after.seqid, lock.seqid + 1);
  EXPECT_EQ(StatusOfTest(Other(), 125, 50), NFS4_OK);
  EXPECT_EQ(StatusOfTest(Other(), 124, 1), NFS4ERR_DENIED);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 100, 25)).status, NFS4ERR_OLD_STATEID);
  EXPECT_EQ(Run(PutFh(file), Unlocking(open, 100, 25)).status, NFS4ERR_BAD_STATEID);
}

TEST_F(LockTest, ContinuesUnderTheLockStateid) {
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  auto reply = Run(PutFh(file), Locking(WRITE_LT, 10, 10, KnownLocker(lock)));
  EXPECT_EQ(reply.Skip().Next<LOCK4res>().resok4().lock_stateid.other, lock.other);
  EXPECT_EQ(StatusOfTest(Other(), 15, 1), NFS4ERR_DENIED);
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 20, 10, KnownLocker(open))).status, NFS4ERR_BAD_STATEID);
}

TEST_F(LockTest, RequiresAnOpenWithTheAccess) {
  const stateid4 reader = OpenBy(Client(), "file", kRead, 0, "reader");
  EXPECT_EQ(TryLock(Client(), reader, "locker", 0, 10).status(), NFS4ERR_OPENMODE);
  EXPECT_EQ(TryLock(Client(), reader, "locker", 0, 10, READ_LT).status(), NFS4_OK);
}

TEST_F(LockTest, SetsTheCurrentStateid) {
  const auto reply = Run(PutFh(file), Locking(WRITE_LT, 0, kWholeFile, NewLocker(Client().client(), open, "locker")),
                         Writing(kCurrent), Unlocking(kCurrent, 0, kWholeFile), Closing(open));
  EXPECT_EQ(reply.status, NFS4_OK);
}

TEST_F(LockTest, EndsWithItsOpen) {
  LockBy(Client(), open, "locker", 0, 10);
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(StatusOfTest(Other(), 0, 10), NFS4_OK);
}

// RFC 8881 §18.46.3
TEST_F(LockTest, SequenceReportsStateThatAnOperatorRevokedUntilItIsFreed) {
  const auto flags = [&](SessionClient& of) {
    constexpr uint32_t kRevoked = SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED | SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
                                  SEQ4_STATUS_ADMIN_STATE_REVOKED | SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
    return server.Run(1, of.Sequence()).Next<SEQUENCE4res>().sr_resok4().sr_status_flags & kRevoked;
  };
  const auto revoke = [&](const stateid4& id) {
    EXPECT_TRUE(server.state.Run([&](StateTables& state) { return state.files.Revoke(id, {}); }));
  };
  const auto free = [&](const stateid4& id) { return Run(Op(OP_FREE_STATEID, FREE_STATEID4args{id})).status; };
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 100);
  EXPECT_EQ(flags(Client()), 0u);
  revoke(lock);
  EXPECT_EQ(flags(Client()), uint32_t{SEQ4_STATUS_ADMIN_STATE_REVOKED});
  EXPECT_EQ(flags(Other()), 0u);
  revoke(open);
  EXPECT_EQ(free(lock), NFS4_OK);
  EXPECT_EQ(flags(Client()), uint32_t{SEQ4_STATUS_ADMIN_STATE_REVOKED}) << "the open is lost, too";
  EXPECT_EQ(free(open), NFS4_OK);
  EXPECT_EQ(flags(Client()), 0u);
}

TEST_F(LockTest, RejectsNonFiles) {
  const nfs_fh4 directory = MakeDirectory("directory");
  const nfs_fh4 link = MakeSymlink("link", "file");
  const nfs_fh4 fifo = MakeFifo("fifo");
  const auto test = TestingLock(Client().client(), "tester", 0, 1);
  EXPECT_EQ(Run(PutFh(directory), test).status, NFS4ERR_ISDIR);
  EXPECT_EQ(Run(PutFh(link), test).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(Run(PutFh(fifo), test).status, NFS4ERR_WRONG_TYPE);
}

TEST_F(LockTest, RejectsAReclaimWithoutARestart) {
  const auto reclaim = Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), open, "locker"), true);
  EXPECT_EQ(Run(PutFh(file), reclaim).status, NFS4ERR_NO_GRACE);
}

TEST_F(LockTest, RemovesALockOfAnExpiredClientOnConflict) {
  LockBy(Client(), open, "locker", 0, 10);
  Pass(server.settings.lease / 2);
  EXPECT_EQ(StatusOfTest(Other(), 0, 10), NFS4ERR_DENIED);
  Pass(server.settings.lease / 2 + std::chrono::seconds(1));
  EXPECT_EQ(TryLock(Other(), others, "locker", 0, 10).status(), NFS4_OK);
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.clients.Find(Client().client()); }));
}

TEST_F(LockTest, LocktIgnoresExpiredClients) {
  LockBy(Client(), open, "locker", 0, 10);
  PassLease();
  EXPECT_EQ(StatusOfTest(Other(), 0, 10), NFS4_OK);
}

// RFC 8881 §20.11
TEST_F(LockTest, NotifiesTheWaiterOfAFreeLock) {
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  EXPECT_EQ(TryLock(Other(), others, "waiter", 5, 5, WRITEW_LT).status(), NFS4ERR_DENIED);
  EXPECT_THAT(server.callbacks.notices, IsEmpty());
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 0, 10)).status, NFS4_OK);
  ASSERT_THAT(server.callbacks.notices, SizeIs(1));
  EXPECT_EQ(server.callbacks.notices[0].client, Other().client());
  EXPECT_EQ(server.callbacks.notices[0].owner, "waiter");
  EXPECT_EQ(TryLock(Client(), open, "another", 5, 5).status(), NFS4ERR_DENIED);
  EXPECT_EQ(TryLock(Other(), others, "waiter", 5, 5, WRITEW_LT).status(), NFS4_OK);
}

class EndedHolderTest : public LockTest {
 protected:
  // The other client requests the lock and waits for a notice.
  void Wait() { EXPECT_EQ(TryLock(Other(), others, "waiter", 5, 5, WRITEW_LT).status(), NFS4ERR_DENIED); }
  void ExpectNotice() {
    ASSERT_THAT(server.callbacks.notices, SizeIs(1));
    EXPECT_EQ(server.callbacks.notices[0].client, Other().client());
    EXPECT_EQ(server.callbacks.notices[0].owner, "waiter");
  }
};

TEST_F(EndedHolderTest, DestroyClientIdNotifiesTheWaiterAtOnce) {
  LockBy(Client(), open, "locker", 0, 10);
  Pass(server.settings.lease / 2);
  Wait();
  Pass(server.settings.lease / 2 + std::chrono::seconds(1));
  EXPECT_THAT(server.callbacks.notices, IsEmpty());
  const DESTROY_CLIENTID4args holder{Client().client().value()};
  EXPECT_EQ(server.Run(2, Op(OP_DESTROY_CLIENTID, holder)).status, NFS4_OK);
  ExpectNotice();
}

TEST_F(EndedHolderTest, ANewIncarnationOfTheHolderNotifiesTheWaiterAtOnce) {
  LockBy(Client(), open, "locker", 0, 10);
  Wait();
  EXPECT_THAT(server.callbacks.notices, IsEmpty());
  const SessionClient restarted(server, "client", 2, 0, state_protect4_a(SP4_NONE), Verifier(1));
  EXPECT_NE(restarted.client(), Client().client());
  ExpectNotice();
}

TEST_F(EndedHolderTest, ANewIncarnationOfAHolderOfVersion0NotifiesTheWaiterAtOnce) {
  Client0 holder(server, "of 4.0");
  const stateid4 under = holder.Open("owner", "file", kBoth);
  const locker4 locker = NewLocker(holder.id(), under, "locker", holder.seqid("owner"));
  EXPECT_EQ(Run0(PutFh(file), Locking(WRITE_LT, 0, 10, locker)).status, NFS4_OK);
  Wait();
  EXPECT_THAT(server.callbacks.notices, IsEmpty());
  const Client0 restarted(server, "of 4.0", Verifier(1));
  EXPECT_NE(restarted.id(), holder.id());
  ExpectNotice();
}

TEST_F(LockTest, NotifiesTheNextWaiterIfTheFirstMissesItsTurn) {
  const stateid4 lock = LockBy(Client(), open, "locker", 0, 10);
  EXPECT_EQ(TryLock(Other(), others, "waiter", 5, 5, WRITEW_LT).status(), NFS4ERR_DENIED);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 0, 10)).status, NFS4_OK);
  EXPECT_EQ(TryLock(Client(), open, "next", 5, 5, WRITEW_LT).status(), NFS4ERR_DENIED);
  server.clock.now += std::chrono::seconds(5);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  ASSERT_THAT(server.callbacks.notices, SizeIs(2));
  EXPECT_EQ(server.callbacks.notices[1].client, Client().client());
  EXPECT_EQ(server.callbacks.notices[1].owner, "next");
  EXPECT_EQ(TryLock(Client(), open, "next", 5, 5, WRITEW_LT).status(), NFS4_OK);
}

// --- Version 4.0

TEST_F(Lock0Test, CountsItsOwnSequence) {
  const stateid4 lock = LockNew("locker", 0, 25).resok4().lock_stateid;
  EXPECT_EQ(LockMore(lock, 2, 50, 25).status(), NFS4ERR_BAD_SEQID);
  const auto more = LockMore(lock, 1, 50, 25);
  ASSERT_EQ(more.status(), NFS4_OK);
  EXPECT_EQ(LockMore(lock, 1, 50, 25), more);
  EXPECT_EQ(Unlock(more.resok4().lock_stateid, 1, 0, 25).status, NFS4ERR_BAD_SEQID);  // seqid 1 was the LOCK
  EXPECT_EQ(LockMore(lock, 2, 100, 25).status(), NFS4ERR_OLD_STATEID);
  EXPECT_EQ(Unlock(more.resok4().lock_stateid, 3, 0, 25).status, NFS4_OK);
}

TEST_F(Lock0Test, FirstLockIsInTheSequenceOfTheOpenOwner) {
  const auto with = [&](uint32_t open_seqid) {
    return Run0(PutFh(file), Locking(WRITE_LT, 0, 25, NewLocker(client.id(), open, "locker", open_seqid))).status;
  };
  EXPECT_EQ(with(50), NFS4ERR_BAD_SEQID);
  EXPECT_EQ(with(client.seqid("owner")), NFS4_OK);
  EXPECT_EQ(with(client.seqid("owner")), NFS4_OK);      // a retry
  EXPECT_EQ(with(client.seqid("owner") + 1), NFS4_OK);  // the lock-owner's seqid shows that this is a retry
}

TEST_F(Lock0Test, RepeatsADenialOnRetry) {
  const stateid4 first = LockNew("first", 20, 100).resok4().lock_stateid;
  LockNew("second", 0, 10);
  for (int i = 0; i < 2; ++i) {
    const auto denied = LockMore(first, 1, 0, 10);
    ASSERT_EQ(denied.status(), NFS4ERR_DENIED);
    EXPECT_EQ(AsText(denied.denied().owner.owner.bytes()), "second");
  }
}

TEST_F(Lock0Test, DenialLeavesNoLockOwner) {
  LockNew("first", 0, 10);
  EXPECT_EQ(LockNew("second", 0, 10).status(), NFS4ERR_DENIED);
  EXPECT_EQ(LockNew("second", 10, 10).status(), NFS4_OK);
}

TEST_F(Lock0Test, AcceptsAKnownOwnerAsNew) {
  const stateid4 lock = LockNew("locker", 0, 10, 0, READ_LT).resok4().lock_stateid;
  EXPECT_EQ(Unlock(lock, 1, 0, 10).status, NFS4_OK);
  const auto again = LockNew("locker", 0, 10, 2);
  ASSERT_EQ(again.status(), NFS4_OK);
  EXPECT_EQ(again.resok4().lock_stateid.other, lock.other);
}

TEST_F(Lock0Test, BelongsToTheClientOfTheOpen) {
  const auto with = [&](ClientId id) {
    return Run0(PutFh(file), Locking(WRITE_LT, 0, 25, NewLocker(id, open, "locker", client.seqid("owner")))).status;
  };
  EXPECT_EQ(with(ClientId(0x1234'0000'0001)), NFS4ERR_STALE_CLIENTID);
  Client0 another(server, "another");
  EXPECT_EQ(with(another.id()), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(with(client.id()), NFS4_OK);
}

TEST_F(Lock0Test, ReleasesLockOwnersWithoutLocks) {
  const auto release = [&] {
    const RELEASE_LOCKOWNER4args owner{{.clientid = client.id().value(), .owner = AsBytes("locker")}};
    return Run0(Op(OP_RELEASE_LOCKOWNER, owner)).status;
  };
  const stateid4 lock = LockNew("locker", 0, 10).resok4().lock_stateid;
  EXPECT_EQ(release(), NFS4ERR_LOCKS_HELD);
  EXPECT_EQ(Unlock(lock, 1, 0, 10).status, NFS4_OK);
  EXPECT_EQ(release(), NFS4_OK);
  EXPECT_EQ(Unlock(lock, 2, 0, 10).status, NFS4ERR_BAD_STATEID);
}

TEST_F(Lock0Test, LocktRequiresAKnownClient) {
  LockNew("locker", 0, 10);
  const auto test = [&](ClientId id) { return Run0(PutFh(file), TestingLock(id, "tester", 0, 10)).status; };
  EXPECT_EQ(test(client.id()), NFS4ERR_DENIED);
  EXPECT_EQ(test(ClientId(0x1234'0000'0001)), NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(Run0(PutFh(MakeFifo("fifo")), TestingLock(client.id(), "tester", 0, 10)).status, NFS4ERR_INVAL);
}

}  // namespace
}  // namespace penstock::nfs::v4
