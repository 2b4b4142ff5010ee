// Locks and shares of hosts, against each other, against clients of version 4 and against local programs.
#include "fs/test_locks.h"
#include "nfs/nlm/nlm_test.h"
#include "nfs/v3/program.h"

namespace penstock::nfs::nlm {
namespace {

using nfs4::NFS4_OK;
using nfs4::NFS4ERR_DENIED;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using v4::kBoth;
using v4::kRead;

class LockManagerTest : public NlmTest {};

TEST_F(LockManagerTest, AnotherHostDoesNotGetALockedRange) {
  EXPECT_EQ(Lock(alice, {.offset = 0, .length = 10}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.offset = 9, .length = 1}), NLM4_DENIED);
  EXPECT_EQ(Lock(bob, {.offset = 10, .length = 1}), NLM4_GRANTED);
  EXPECT_EQ(Unlock(alice, {.offset = 5, .length = 5}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.offset = 4, .length = 1}), NLM4_DENIED);
  EXPECT_EQ(Lock(bob, {.offset = 9, .length = 1}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, SharedLocksExcludeOnlyExclusiveOnes) {
  EXPECT_EQ(Lock(alice, {.exclusive = false}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.exclusive = false}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.exclusive = true}), NLM4_DENIED);
  EXPECT_EQ(Unlock(alice, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.exclusive = true}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, ProcessesOfOneHostExcludeEachOther) {
  EXPECT_EQ(Lock(alice, {.process = 1}), NLM4_GRANTED);
  EXPECT_EQ(Lock(alice, {.process = 2}), NLM4_DENIED);
  EXPECT_EQ(Lock(alice, {.process = 1}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, HostsBehindOneAddressAreDifferentHosts) {
  EXPECT_EQ(Lock({"alice", "192.0.2.1"}, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock({"guest", "192.0.2.1"}, {}), NLM4_DENIED);
  EXPECT_EQ(Unlock({"guest", "192.0.2.1"}, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED) << "only its holder can give up a lock";
}

TEST_F(LockManagerTest, ALengthOfZeroLocksToTheEnd) {
  EXPECT_EQ(Lock(alice, {.offset = 100, .length = 0}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.offset = UINT64_MAX - 1, .length = 1}), NLM4_DENIED);
  EXPECT_EQ(Lock(bob, {.offset = 0, .length = 100}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, ARangeBeyond64BitsIsTooBig) {
  EXPECT_EQ(Lock(alice, {.offset = UINT64_MAX, .length = 2}), NLM4_FBIG);
  EXPECT_EQ(Unlock(alice, {.offset = UINT64_MAX, .length = 2}), NLM4_FBIG);
  EXPECT_EQ(Test(alice, {.offset = UINT64_MAX, .length = 2}).discriminant(), NLM4_FBIG);
}

TEST_F(LockManagerTest, TestTellsTheHolder) {
  EXPECT_EQ(Test(bob, {}).discriminant(), NLM4_GRANTED);
  Lock(alice, {.offset = 3, .length = 4, .process = 77});
  const auto tested = Test(bob, {});
  ASSERT_EQ(tested.discriminant(), NLM4_DENIED);
  EXPECT_EQ(tested.holder().svid, 77);
  EXPECT_EQ(tested.holder().l_offset, 3u);
  EXPECT_EQ(tested.holder().l_len, 4u);
  EXPECT_TRUE(tested.holder().exclusive);
  EXPECT_EQ(Test(alice, {.process = 77}).discriminant(), NLM4_GRANTED);
}

TEST_F(LockManagerTest, AHostWithoutLocksLeavesNothingButItsName) {
  Lock(alice, {.offset = 0, .length = 0});
  EXPECT_EQ(Unlock(alice, {.offset = 0, .length = 0}), NLM4_GRANTED);
  server.state.Run([&](v4::StateTables& state) {
    EXPECT_EQ(state.files.size(), 0u);
    EXPECT_EQ(state.lock_hosts.size(), 1u);
  });
  EXPECT_THAT(server.recovery_store->Reclaimers(), SizeIs(1));
  Pass(std::chrono::minutes(11));
  manager.Sweep();
  server.state.Run([&](v4::StateTables& state) { EXPECT_EQ(state.lock_hosts.size(), 0u); });
  EXPECT_THAT(server.recovery_store->Reclaimers(), IsEmpty());
}

TEST_F(LockManagerTest, AHostWithLocksStaysHoweverLongItIsSilent) {
  Lock(alice, {});
  Pass(std::chrono::hours(24));
  manager.Sweep();
  Spawn(v4::KeepLeases(server.GetServices(), nullptr));
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(LockManagerTest, NoLockIsGrantedToAHostThatCannotBeRecorded) {
  server.recovery_store->full = true;
  EXPECT_EQ(Lock(alice, {}), NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(SetShare(alice, "owner", fsa4_RW, fsm4_DN), NLM4_DENIED_NOLOCKS);
  server.recovery_store->full = false;
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, OneAddressMayNotHaveAnyNumberOfHosts) {
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(Lock({"host " + std::to_string(i), "192.0.2.1"}, {.exclusive = false}), NLM4_GRANTED);
  }
  EXPECT_EQ(Lock({"one more", "192.0.2.1"}, {.exclusive = false}), NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(Lock(bob, {.exclusive = false}), NLM4_GRANTED);
}

// ---- files and rights

TEST_F(LockManagerTest, OnlyRegularFilesCanBeLocked) {
  const auto lock = [&](const nfs4::nfs_fh4& handle) {
    nlm4_lock what = LockOf(alice, {});
    what.fh = handle.bytes();
    return Call<NLMPROC4_LOCK>(alice, {.cookie = {}, .block = false, .exclusive = true, .alock = what}).stat;
  };
  EXPECT_EQ(lock(Root()), NLM4_FAILED);
  EXPECT_EQ(lock(MakeFifo("fifo")), NLM4_FAILED);
  EXPECT_EQ(lock(StaleHandle()), NLM4_STALE_FH);
  EXPECT_EQ(lock({}), NLM4_STALE_FH);
}

TEST_F(LockManagerTest, AUserLocksOnlyWhatHeMayUse) {
  const nfs4::nfs_fh4 readable = MakeFile("readable", "", 0644);
  const auto lock = [&](const nfs4::nfs_fh4& handle, bool exclusive) {
    nlm4_lock what = LockOf(alice, {});
    what.fh = handle.bytes();
    return Call<NLMPROC4_LOCK>(alice, {.cookie = {}, .block = false, .exclusive = exclusive, .alock = what}).stat;
  };
  uid = 1000;
  EXPECT_EQ(lock(readable, false), NLM4_GRANTED);
  EXPECT_EQ(lock(readable, true), NLM4_DENIED);
  EXPECT_EQ(lock(MakeFile("secret", "", 0600), false), NLM4_DENIED);
  uid = 0;
  EXPECT_EQ(lock(readable, true), NLM4_GRANTED);
}

// ---- version 4

TEST_F(LockManagerTest, AHostAndAClientOfVersion4ExcludeEachOther) {
  const nfs4::stateid4 open = OpenBy(Client(), "file", kBoth);
  EXPECT_EQ(Lock4(open, 0, 10), NFS4_OK);
  EXPECT_EQ(Lock(alice, {.offset = 5, .length = 10}), NLM4_DENIED);
  const auto tested = Test(alice, {});
  ASSERT_EQ(tested.discriminant(), NLM4_DENIED);
  EXPECT_EQ(tested.holder().l_len, 10u);
  EXPECT_EQ(Lock(alice, {.offset = 10, .length = 10}), NLM4_GRANTED);
  EXPECT_EQ(Lock4(open, 15, 10), NFS4ERR_DENIED);
  EXPECT_EQ(Lock4(open, 20, 10), NFS4_OK);
}

TEST_F(LockManagerTest, AClientOfVersion4SeesWhoHasTheLock) {
  const nfs4::stateid4 open = OpenBy(Client(), "file", kBoth);
  Lock(alice, {.offset = 3, .length = 4});
  auto reply = Run(v4::PutFh(file), v4::Locking(nfs4::WRITE_LT, 0, 10, v4::NewLocker(Client().client(), open, "me")));
  const auto denied = reply.Skip().Next<nfs4::LOCK4res>();
  ASSERT_EQ(denied.status(), NFS4ERR_DENIED);
  EXPECT_EQ(denied.denied().offset, 3u);
  EXPECT_EQ(denied.denied().length, 4u);
  EXPECT_EQ(denied.denied().owner.clientid, 0u) << "no client of version 4 has this ID";
}

TEST_F(LockManagerTest, AnExpiredClientOfVersion4GivesWay) {
  const nfs4::stateid4 open = OpenBy(Client(), "file", kBoth);
  EXPECT_EQ(Lock4(open, 0, 10), NFS4_OK);
  PassLease();
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
}

TEST_F(LockManagerTest, AWaitingClientOfVersion4IsToldWhenAHostUnlocks) {
  const nfs4::stateid4 open = OpenBy(Client(), "file", kBoth);
  Lock(alice, {});
  EXPECT_EQ(Lock4(open, 0, 10, nfs4::WRITEW_LT), NFS4ERR_DENIED);
  EXPECT_THAT(server.callbacks.notices, IsEmpty());
  Unlock(alice, {});
  EXPECT_THAT(server.callbacks.notices, SizeIs(1));
}

TEST_F(LockManagerTest, ALockWaitsForTheReturnOfAWriteDelegation) {
  LetCall(Client());
  const auto opened = TryOpen(Client(), "file", kBoth);
  ASSERT_EQ(opened.resok4().delegation.delegation_type(), nfs4::OPEN_DELEGATE_WRITE);
  EXPECT_EQ(Lock(alice, {.exclusive = false}, true), NLM4_BLOCKED);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_THAT(hosts.calls, IsEmpty());
  const auto& id = opened.resok4().delegation.write().stateid;
  EXPECT_EQ(Run(v4::PutFh(file), v4::Op(nfs4::OP_DELEGRETURN, nfs4::DELEGRETURN4args{id})).status, NFS4_OK);
  Pass(std::chrono::seconds(2));
  EXPECT_THAT(hosts.calls, SizeIs(1));
}

TEST_F(LockManagerTest, ALockedFileIsNotDelegated) {
  LetCall(Client());
  Lock(alice, {.exclusive = false});
  EXPECT_EQ(TryOpen(Client(), "file", kRead).resok4().delegation.delegation_type(), nfs4::OPEN_DELEGATE_NONE);
}

// ---- local programs

class LocalProgramTest : public NlmTest {
 protected:
  LocalProgramTest() {
    server.faults->OfferLocks([this](bool exclusive) { return local.Open(exclusive); });
  }
  ~LocalProgramTest() override { Call<NLMPROC4_FREE_ALL>(alice, {.name = "alice", .state = 3}); }
  fs::TestLocks local;
};

TEST_F(LocalProgramTest, SeesTheLocksOfHosts) {
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
  EXPECT_EQ(Unlock(alice, {.offset = 0, .length = 5}), NLM4_GRANTED);
  EXPECT_THAT(local.log, ElementsAre("exclusive 0-9", "unlock 0-4"));
  EXPECT_EQ(Unlock(alice, {}), NLM4_GRANTED);
  EXPECT_EQ(local.log.back(), "gone");
}

TEST_F(LocalProgramTest, ExcludesHosts) {
  local.programs = {.first = 5, .last = 6, .exclusive = true, .process = 123};
  EXPECT_EQ(Lock(alice, {}), NLM4_DENIED);
  EXPECT_EQ(Test(alice, {}).discriminant(), NLM4_DENIED);
  EXPECT_EQ(Lock(alice, {.offset = 7}), NLM4_GRANTED);
}

TEST_F(LocalProgramTest, GivesALockToAHostThatWaits) {
  local.programs = {.first = 5, .last = 6, .exclusive = true, .process = 123};
  EXPECT_EQ(Lock(alice, {}, true), NLM4_BLOCKED);
  Pass(std::chrono::seconds(2));
  EXPECT_THAT(hosts.calls, IsEmpty());
  local.programs.reset();
  Pass(std::chrono::seconds(2));
  EXPECT_THAT(hosts.calls, SizeIs(1));
}

// ---- shares

class ShareTest : public NlmTest {};

TEST_F(ShareTest, SharesOfHostsConflict) {
  EXPECT_EQ(SetShare(alice, "a", fsa4_RW, fsm4_DW), NLM4_GRANTED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_W, fsm4_DN), NLM4_DENIED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_R, fsm4_DR), NLM4_DENIED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_R, fsm4_DN), NLM4_GRANTED);
  EXPECT_EQ(RemoveShare(alice, "a"), NLM4_GRANTED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
}

TEST_F(ShareTest, AnOwnersNewShareReplacesItsOldOneUnlessItIsDenied) {
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DW), NLM4_GRANTED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_R, fsm4_DN), NLM4_GRANTED);
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DRW), NLM4_DENIED);
  EXPECT_EQ(SetShare(bob, "other", fsa4_W, fsm4_DN), NLM4_DENIED) << "the old share is still there";
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DN), NLM4_GRANTED);
  EXPECT_EQ(SetShare(bob, "other", fsa4_W, fsm4_DN), NLM4_GRANTED);
}

TEST_F(ShareTest, SharesAndOpensOfVersion4Conflict) {
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DW), NLM4_GRANTED);
  EXPECT_EQ(TryOpen(Client(), "file", kBoth).status(), nfs4::NFS4ERR_SHARE_DENIED);
  OpenBy(Client(), "file", kRead, nfs4::OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(SetShare(bob, "b", fsa4_W, fsm4_DN), NLM4_DENIED);
}

TEST_F(ShareTest, AShareDoesNotKeepCallsWithoutOwnersFromTheFile) {
  EXPECT_EQ(SetShare(alice, "a", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
  EXPECT_EQ(Run(v4::PutFh(file), v4::Reading(v4::kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(Run(v4::PutFh(file), v4::Writing(v4::kAnonymous)).status, NFS4_OK);
}

TEST_F(ShareTest, AUserDeniesOnlyWhatHeMayUse) {
  const nfs4::nfs_fh4 secret = MakeFile("secret", "", 0600);
  uid = 1000;
  const NLMPROC4_SHARE::Arguments arguments{.cookie = {},
                                            .share = {.caller_name = "alice",
                                                      .fh = secret.bytes(),
                                                      .oh = AsBytes("a"),
                                                      .mode = fsm4_DRW,
                                                      .access = fsa4_NONE},
                                            .reclaim = false};
  EXPECT_EQ(Call<NLMPROC4_SHARE>(alice, arguments).stat, NLM4_DENIED);
}

TEST_F(ShareTest, LocksAndSharesAreIndependent) {
  EXPECT_EQ(SetShare(alice, "a", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
  EXPECT_EQ(RemoveShare(alice, "a"), NLM4_GRANTED);
  EXPECT_EQ(SetShare(alice, "a", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
}

// ---- restarts of hosts

TEST_F(LockManagerTest, AHostThatHasStartedAgainHasNoLocks) {
  Lock(alice, {});
  SetShare(alice, "a", fsa4_RW, fsm4_DRW);
  Call<NLMPROC4_FREE_ALL>(alice, {.name = "alice", .state = 3});
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
  EXPECT_EQ(SetShare(bob, "b", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
  EXPECT_THAT(server.recovery_store->Reclaimers(), SizeIs(1));
}

TEST_F(LockManagerTest, NoHostEndsTheLocksOfAnother) {
  Lock(alice, {});
  Call<NLMPROC4_FREE_ALL>(bob, {.name = "alice", .state = 3});
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(LockManagerTest, AHostMayTellItsNameWithItsDomain) {
  Lock(alice, {});
  Lock({"guest", "192.0.2.1"}, {.offset = 100});
  Call<NLMPROC4_FREE_ALL>(alice, {.name = "alice.example.org", .state = 3});
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {.offset = 100}), NLM4_DENIED);
  Call<NLMPROC4_FREE_ALL>(alice, {.name = "another name", .state = 3});
  EXPECT_EQ(Lock(bob, {.offset = 100}), NLM4_GRANTED) << "the only host at its address";
}

// ---- the grace period

class NlmGraceTest : public NlmTest {
 protected:
  NlmGraceTest() {
    // Imitates a server that has just restarted and knows one host from its last run.
    server.state.Run([&](v4::StateTables& state) {
      const v4::LockHostName known{asio::ip::make_address("192.0.2.1"), "alice"};
      state.clients.grace() =
          v4::Grace({{.owner = v4::LockHostKey(known), .principal = {}}}, server.clock.now + std::chrono::seconds(90));
    });
  }
};

TEST_F(NlmGraceTest, OnlyKnownHostsGetLocksAndOnlyThoseThatTheyHad) {
  EXPECT_EQ(Lock(alice, {}), NLM4_DENIED_GRACE_PERIOD);
  EXPECT_EQ(Lock(bob, {}, true), NLM4_DENIED_GRACE_PERIOD);
  EXPECT_EQ(Test(bob, {}).discriminant(), NLM4_DENIED_GRACE_PERIOD);
  EXPECT_EQ(Lock(bob, {}, false, true), NLM4_DENIED);
  EXPECT_EQ(Lock(alice, {}, false, true), NLM4_GRANTED);
  EXPECT_EQ(SetShare(alice, "a", fsa4_R, fsm4_DW, true), NLM4_GRANTED);
  EXPECT_EQ(Unlock(alice, {}), NLM4_GRANTED);
}

TEST_F(NlmGraceTest, AfterThePeriodNobodyReclaims) {
  EXPECT_EQ(Lock(alice, {}, false, true), NLM4_GRANTED);
  Pass(std::chrono::seconds(91));
  Spawn(v4::KeepLeases(server.GetServices(), nullptr));
  EXPECT_EQ(Lock(alice, {.offset = 50}, false, true), NLM4_DENIED_GRACE_PERIOD);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
  EXPECT_EQ(Lock(bob, {.offset = 50}), NLM4_GRANTED);
}

// Otherwise all clients of version 3 would wait after each restart of a server on which one of them had a lock.
TEST_F(NlmGraceTest, CallsWithoutAnOwnerNeedNotWait) {
  EXPECT_EQ(Run(v4::PutFh(file), v4::Reading(v4::kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(Run(v4::PutFh(file), v4::Writing(v4::kAnonymous)).status, NFS4_OK);
  server.state.Run([&](v4::StateTables& state) { EXPECT_EQ(state.claims(), 0u); });
}

TEST_F(NlmGraceTest, AClientOfVersion4WaitsForTheEndOfThePeriodToo) {
  const auto opened = TryOpen(Client(), "file", kBoth);
  EXPECT_EQ(opened.status(), nfs4::NFS4ERR_GRACE);
}

}  // namespace
}  // namespace penstock::nfs::nlm
