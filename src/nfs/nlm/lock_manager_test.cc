// Locks and shares of hosts, against each other, against clients of version 4 and against local programs.
#include <atomic>
#include <semaphore>

#include "base/test_loop.h"
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

TEST_F(LockManagerTest, AuthNoneLocksNothing) {
  as = rpc::AuthFlavor::AUTH_NONE;
  EXPECT_EQ(Lock(alice, {}), NLM4_FAILED);
  EXPECT_EQ(Test(alice, {}).discriminant(), NLM4_FAILED);
  EXPECT_EQ(SetShare(alice, "owner", fsa4_R, fsm4_DRW), NLM4_FAILED);
}

class KerberosExportTest : public NlmTest {
 protected:
  KerberosExportTest() {
    ExportOptions options;
    options.security = {SecurityFlavor::kKrb5};
    secured_ = MakeFileIn(server.Export("/secured", options), "/secured");
  }
  nfs4::nfs_fh4 MakeFileIn(fs::memory::FileSystem& tree, std::string_view path) {
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    fs::NewAttributes attributes;
    attributes.mode = 0666;
    fs::CreateHow how;
    how.attributes = attributes;
    const auto made = Now(tree.Create(root, tree.Root(), "file", how));
    return v4::ToFileHandle({server.exports.table().Resolve(path).found->id(), made.result->handle});
  }
  nfs4::nfs_fh4 secured_;
};

// As with Linux's server: its clients lock by AUTH_SYS, whatever the export demands. A share could keep users of
// Kerberos from opening the file.
TEST_F(KerberosExportTest, AuthSysLocksButSetsNoShares) {
  nlm4_lock lock = LockOf(alice, {});
  lock.fh = secured_.bytes();
  EXPECT_EQ(
      Call<NLMPROC4_LOCK>(alice, {.cookie = {}, .block = false, .exclusive = true, .alock = lock, .state = 1}).stat,
      NLM4_GRANTED);
  const nlm4_share share{.caller_name = "alice", .fh = secured_.bytes(), .oh = {}, .mode = fsm4_DRW, .access = fsa4_R};
  EXPECT_EQ(Call<NLMPROC4_SHARE>(alice, {.cookie = {}, .share = share, .reclaim = false}).stat, NLM4_FAILED);
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

// NLM has no status that says "try again", and the process does not wait for the lock.
TEST_F(LockManagerTest, ACallWaitsForTheReturnOfAWriteDelegation) {
  LetCall(Client());
  const auto opened = TryOpen(Client(), "file", kBoth);
  const bool& ended = BeginLock(alice, {.exclusive = false});
  EXPECT_FALSE(ended);
  const auto& id = opened.resok4().delegation.write().stateid;
  EXPECT_EQ(Run(v4::PutFh(file), v4::Op(nfs4::OP_DELEGRETURN, nfs4::DELEGRETURN4args{id})).status, NFS4_OK);
  EXPECT_FALSE(ended);
  Pass(std::chrono::milliseconds(500));
  EXPECT_TRUE(ended);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(LockManagerTest, NoCallWaitsLongForADelegationOrWhenTheServerStops) {
  LetCall(Client());
  TryOpen(Client(), "file", kBoth);
  const bool& locked = BeginLock(alice, {});
  Pass(std::chrono::seconds(9));
  EXPECT_FALSE(locked);
  Pass(std::chrono::seconds(2));
  EXPECT_TRUE(locked);
  const bool& another = BeginLock(alice, {});
  Pass(std::chrono::seconds(1));
  EXPECT_FALSE(another);
  Spawn(manager.Stop());
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(another);
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

// The requests of alice that begin now wait for a disk, until Release().
class HangingDiskTest : public NlmTest {
 protected:
  HangingDiskTest() {
    server.GetServices();
    server.faults->Add({.operation = fs::faulty::Operation::kGetAttributes, .effect = {.kind = Hang}});
  }
  ~HangingDiskTest() override { server.faults->ForbidWaiting(); }

  // Other hosts' requests do not wait.
  void LetOthersGoOn() { server.faults->Clear(); }
  void Release() { server.faults->Release(); }
  void Restart(const Host& host) { Call<NLMPROC4_FREE_ALL>(host, {.name = host.name, .state = 3}); }

  static constexpr auto Hang = fs::faulty::Effect::Kind::kHang;
};

TEST_F(HangingDiskTest, ALockOfAHostThatHasStartedAgainMeanwhileIsNotGranted) {
  const bool& ended = BeginLock(alice, {});
  LetOthersGoOn();
  EXPECT_FALSE(ended);
  Restart(alice);
  Release();
  EXPECT_TRUE(ended);
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

TEST_F(HangingDiskTest, ALockIsGrantedIfAnotherHostHasStartedAgain) {
  BeginLock(alice, {});
  LetOthersGoOn();
  EXPECT_EQ(Lock({"guest", "192.0.2.1"}, {.offset = 100}), NLM4_GRANTED);
  Restart({"guest", "192.0.2.1"});
  Restart(bob);
  Release();
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(HangingDiskTest, ARequestOfAHostThatHasStartedAgainMeanwhileDoesNotWaitForTheLock) {
  BeginLock(alice, {}, true);
  LetOthersGoOn();
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
  Restart(alice);
  Release();
  EXPECT_EQ(Unlock(bob, {}), NLM4_GRANTED);
  EXPECT_THAT(hosts.calls, IsEmpty());
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

TEST_F(HangingDiskTest, AShareOfAHostThatHasStartedAgainMeanwhileIsNotSet) {
  Begin<NLMPROC4_SHARE>(
      alice,
      {.cookie = {},
       .share = {.caller_name = "alice", .fh = file.bytes(), .oh = AsBytes("a"), .mode = fsm4_DRW, .access = fsa4_RW},
       .reclaim = false});
  LetOthersGoOn();
  Restart(alice);
  Release();
  EXPECT_EQ(SetShare(bob, "b", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
}

TEST_F(HangingDiskTest, AHostThatHasStartedAgainDoesNotWaitForItsOldRequests) {
  BeginLock(alice, {});
  LetOthersGoOn();
  Restart(alice);
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
  Release();
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED) << "the new lock stays";
  EXPECT_EQ(Unlock(alice, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

// Otherwise the process would have a lock that it has given up.
TEST_F(HangingDiskTest, AnUnlockComesAfterTheLockBeforeIt) {
  const bool& locked = BeginLock(alice, {});
  LetOthersGoOn();
  const bool& unlocked = Begin<NLMPROC4_UNLOCK>(alice, {.cookie = {}, .alock = LockOf(alice, {})});
  EXPECT_FALSE(unlocked);
  EXPECT_EQ(Unlock(alice, {.process = 2}), NLM4_GRANTED) << "another process does not wait";
  Release();
  EXPECT_TRUE(locked && unlocked);
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

TEST_F(HangingDiskTest, ACancelComesAfterTheLockBeforeIt) {
  BeginLock(alice, {}, true);
  LetOthersGoOn();
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
  Begin<NLMPROC4_CANCEL>(alice, {.cookie = {}, .block = true, .exclusive = true, .alock = LockOf(alice, {})});
  Release();
  EXPECT_EQ(Unlock(bob, {}), NLM4_GRANTED);
  EXPECT_THAT(hosts.calls, IsEmpty());
}

TEST_F(HangingDiskTest, TheEndOfAShareComesAfterTheShareBeforeIt) {
  const nlm4_share share{
      .caller_name = "alice", .fh = file.bytes(), .oh = AsBytes("a"), .mode = fsm4_DRW, .access = fsa4_RW};
  Begin<NLMPROC4_SHARE>(alice, {.cookie = {}, .share = share, .reclaim = false});
  LetOthersGoOn();
  Begin<NLMPROC4_UNSHARE>(alice, {.cookie = {}, .share = share, .reclaim = false});
  Release();
  EXPECT_EQ(SetShare(bob, "b", fsa4_RW, fsm4_DRW), NLM4_GRANTED);
}

// The tables may have forgotten a host whose request has not reached them yet.
TEST_F(LockManagerTest, ARestartEndsAWaitingRequestOfAHostThatTheTablesDoNotKnow) {
  LetCall(Client());
  const auto opened = TryOpen(Client(), "file", kBoth);
  EXPECT_EQ(Lock(alice, {}, true), NLM4_BLOCKED);
  server.state.Run([&](v4::StateTables& state) {
    state.EndLockHost(*state.lock_hosts.by_use().front(), server.clock.now);
    EXPECT_EQ(state.lock_hosts.size(), 0u);
  });
  Call<NLMPROC4_FREE_ALL>(alice, {.name = "alice", .state = 3});
  const auto& id = opened.resok4().delegation.write().stateid;
  EXPECT_EQ(Run(v4::PutFh(file), v4::Op(nfs4::OP_DELEGRETURN, nfs4::DELEGRETURN4args{id})).status, NFS4_OK);
  Pass(std::chrono::seconds(5));
  EXPECT_THAT(hosts.calls, IsEmpty());
}

// The host has ended while its record was being written, and has come back. The old record has been removed.
TEST_F(LockManagerTest, ARecordFromBeforeARestartDoesNotCountAfterIt) {
  Loop loop;
  std::binary_semaphore go(0);
  std::atomic<int> records = 0;
  server.recovery_store->before_record = [&] {
    if (++records == 1) go.acquire();
    server.recovery_store->full = records > 1;
  };
  const std::shared_ptr<const Export> in = server.exports.table().all().front();
  const rpc::Credential nobody{};
  const v4::LockedFile what{.in = in,
                            .name = in->Name(FileHandle::Parse(file.bytes())->object),
                            .caller = {in->admissions().front().options, nobody, server.peer}};
  const v4::HostLocks::Process by{.host = {asio::ip::make_address("192.0.2.1"), "alice"},
                                  .ours = asio::ip::make_address("192.0.2.100"),
                                  .number = 1};
  std::vector<v4::HostLocks::Status> got;
  const auto lock = [&] {
    Spawn([](v4::HostLocks& in, Loop& on, v4::LockedFile of, v4::HostLocks::Process process,
             std::vector<v4::HostLocks::Status>& into) -> Task<> {
      const v4::HostLocks::Request request{.range = *v4::LockRange::From(0, 10), .exclusive = true};
      const v4::HostLocks::Answer answer = co_await in.Lock(&on, std::move(of), std::move(process), request);
      into.push_back(answer.status);
    }(locks, loop, what, by, got));
  };
  lock();
  locks.EndHosts(&loop, {by.host});
  lock();
  go.release();
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.size() == 2; }));
  EXPECT_THAT(got, ElementsAre(v4::HostLocks::Status::kNoRoom, v4::HostLocks::Status::kNoRoom));
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

// The hosts of another server reclaim there.
TEST_F(NlmGraceTest, NobodyLocksOrReclaimsWhileTheClusterHoldsThePeriod) {
  server.state.Run([](v4::StateTables& state) {
    state.clients.grace().End();
    state.clients.grace().Hold();
  });
  EXPECT_EQ(Lock(alice, {}, false, true), NLM4_DENIED_GRACE_PERIOD);
  EXPECT_EQ(Lock(alice, {}), NLM4_DENIED_GRACE_PERIOD);
  server.state.Run([](v4::StateTables& state) { state.clients.grace().Release(); });
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
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
