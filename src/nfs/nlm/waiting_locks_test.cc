// Lock requests of hosts that wait until the lock is free.
#include "base/test_log.h"
#include "nfs/nlm/nlm_test.h"

namespace penstock::nfs::nlm {
namespace {

using nfs4::NFS4_OK;
using testing::IsEmpty;
using testing::SizeIs;
using v4::kBoth;

class WaitingLockTest : public NlmTest {
 protected:
  WaitingLockTest() {
    EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
    EXPECT_EQ(Lock(bob, {.offset = 2, .length = 3, .process = 8}, true), NLM4_BLOCKED);
    EXPECT_THAT(hosts.calls, IsEmpty());
  }
  // Whether bob's lock, and only that, is in the way of carol's.
  bool BobHasTheLock() { return Lock(carol, {.offset = 2, .length = 3}) == NLM4_DENIED; }
};

class CrowdedTest : public NlmTest {
 protected:
  CrowdedTest() : NlmTest({.most = 12, .most_per_host = 2}) {}
};

TEST_F(WaitingLockTest, TheHostIsToldWhenItHasTheLock) {
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  const SentCall& call = hosts.calls[0];
  EXPECT_EQ(call.to.host, asio::ip::make_address("192.0.2.2"));
  EXPECT_EQ(call.to.program, NLM4_PROGRAM);
  EXPECT_EQ(call.to.version, NLM4_VERS);
  EXPECT_EQ(call.to.procedure, NLMPROC4_GRANTED::kNumber);
  EXPECT_EQ(call.caller_name, "bob");
  EXPECT_EQ(call.fh, AsText(file.bytes()));
  EXPECT_EQ(call.oh, "owner");
  EXPECT_EQ(call.process, 8);
  EXPECT_EQ(call.offset, 2u);
  EXPECT_EQ(call.length, 3u);
  EXPECT_TRUE(call.exclusive);
  EXPECT_TRUE(BobHasTheLock());
  Pass(std::chrono::minutes(1));
  EXPECT_THAT(hosts.calls, SizeIs(1)) << "it is told once";
}

TEST_F(WaitingLockTest, AClientOfVersion4GivesALockToAHost) {
  const nfs4::stateid4 open = OpenBy(Client(), "file", kBoth);
  EXPECT_EQ(Lock4(open, 100, 10), NFS4_OK);
  EXPECT_EQ(Lock(carol, {.offset = 100}, true), NLM4_BLOCKED);
  EXPECT_EQ(Run(v4::PutFh(file), v4::Closing(open)).status, NFS4_OK);
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(hosts.calls[0].caller_name, "carol");
}

TEST_F(WaitingLockTest, TheOneThatHasWaitedLongestComesFirst) {
  EXPECT_EQ(Lock(carol, {.offset = 2, .length = 3}, true), NLM4_BLOCKED);
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(hosts.calls[0].caller_name, "bob");
  Unlock(bob, {.offset = 2, .length = 3, .process = 8});
  ASSERT_THAT(hosts.calls, SizeIs(2));
  EXPECT_EQ(hosts.calls[1].caller_name, "carol");
}

TEST_F(WaitingLockTest, ARequestKeepsItsPlaceLongerThanALeaseTime) {
  for (int i = 0; i < 200; ++i) Pass(std::chrono::seconds(1));
  EXPECT_EQ(Lock(carol, {.offset = 2, .length = 3}, true), NLM4_BLOCKED);
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(hosts.calls[0].caller_name, "bob");
}

TEST_F(WaitingLockTest, ACancelledRequestGetsNoLock) {
  EXPECT_EQ(Cancel(bob, {.offset = 2, .length = 3, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(Cancel(bob, {.offset = 2, .length = 3, .process = 8}), NLM4_DENIED) << "it is gone";
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, IsEmpty());
  EXPECT_FALSE(BobHasTheLock());
}

// A thread of a process may close the file, which unlocks all, while another one waits.
TEST_F(WaitingLockTest, AnUnlockOfMoreThanTheRequestDoesNotEndTheWait) {
  EXPECT_EQ(Lock(bob, {.offset = 100, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(Unlock(bob, {.offset = 0, .length = 0, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(Unlock(bob, {.offset = 0, .length = 0, .process = 8}), NLM4_GRANTED) << "without any lock";
  EXPECT_EQ(Lock(carol, {.offset = 2, .length = 3}, true), NLM4_BLOCKED);
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(hosts.calls[0].caller_name, "bob") << "it has kept its place";
}

TEST_F(WaitingLockTest, AnUnlockOfTheSameRangeEndsTheWait) {
  EXPECT_EQ(Unlock(bob, {.offset = 2, .length = 3, .process = 8}), NLM4_GRANTED);
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, IsEmpty());
  EXPECT_FALSE(BobHasTheLock());
}

TEST_F(WaitingLockTest, AnUnlockEndsARequestWhoseLockTheServerHasTaken) {
  hosts.hold = true;
  Unlock(alice, {});
  EXPECT_EQ(hosts.held(), 1u);
  EXPECT_EQ(Unlock(bob, {.offset = 0, .length = 0, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(hosts.held(), 0u);
  EXPECT_FALSE(BobHasTheLock());
}

TEST_F(WaitingLockTest, ManyRequestsOfOneHostDoNotKeepAnotherFromTheQueue) {
  for (int process = 100; process < 200; ++process) EXPECT_EQ(Lock(bob, {.process = process}, true), NLM4_BLOCKED);
  EXPECT_EQ(Lock(carol, {}, true), NLM4_BLOCKED);
  // Each process gives its lock back as soon as it has it.
  Unlock(alice, {});
  const auto has_called_carol = [&] { return !hosts.calls.empty() && hosts.calls.back().caller_name == "carol"; };
  for (int i = 0; i < 100 && !has_called_carol(); ++i) {
    const SentCall last = hosts.calls.back();
    Unlock(bob, {.offset = last.offset, .length = last.length, .process = last.process});
    // And waits again.
    Lock(bob, {.process = last.process}, true);
  }
  EXPECT_TRUE(has_called_carol());
}

TEST_F(WaitingLockTest, ARequestThatIsCancelledBeforeTheHostHasConfirmedLosesItsLock) {
  hosts.hold = true;
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(Cancel(bob, {.offset = 2, .length = 3, .process = 8}), NLM4_GRANTED);
  EXPECT_FALSE(BobHasTheLock());
}

// The process may ask for the lock once more. A late GRANTED would tell it that it has the lock.
TEST_F(WaitingLockTest, ACancelledRequestEndsItsCall) {
  hosts.hold = true;
  Unlock(alice, {});
  EXPECT_EQ(hosts.held(), 1u);
  EXPECT_EQ(Cancel(bob, {.offset = 2, .length = 3, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(hosts.held(), 0u);
}

TEST_F(WaitingLockTest, ARepeatedRequestThatIsGrantedEndsTheWait) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_EQ(Lock(bob, {.offset = 2, .length = 3, .process = 8}, true), NLM4_GRANTED);
  Pass(std::chrono::minutes(1));
  EXPECT_THAT(hosts.calls, SizeIs(1));
  EXPECT_TRUE(BobHasTheLock());
}

class ManyWaitingLocksTest : public NlmTest {
 protected:
  static constexpr size_t kMany = 200;
  // Bob waits for many locks, which alice holds and then gives up.
  void FreeMany() {
    EXPECT_EQ(Lock(alice, {.offset = 0, .length = 0}), NLM4_GRANTED);
    for (size_t i = 0; i < kMany; ++i) {
      EXPECT_EQ(Lock(bob, {.offset = 10 * i, .process = static_cast<int32_t>(i % 50)}, true), NLM4_BLOCKED);
    }
    EXPECT_EQ(Unlock(alice, {.offset = 0, .length = 0}), NLM4_GRANTED);
    // The tables tell some of the processes at once. The others ask again.
    Pass(std::chrono::minutes(2));
  }
};

TEST_F(ManyWaitingLocksTest, AHostIsToldOfAllOfThemAFewAtATime) {
  hosts.hold = true;
  FreeMany();
  EXPECT_EQ(hosts.held(), 4u);
  EXPECT_THAT(hosts.calls, SizeIs(4));
  hosts.ReleaseHeld();
  EXPECT_EQ(hosts.held(), 4u);
  EXPECT_THAT(hosts.calls, SizeIs(8));
  hosts.Release();
  EXPECT_THAT(hosts.calls, SizeIs(kMany));
}

TEST_F(ManyWaitingLocksTest, AHostThatCannotBeReachedLosesThemAllInTime) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  FreeMany();
  Pass(std::chrono::minutes(2));
  EXPECT_EQ(Lock(carol, {.offset = 0, .length = 0}), NLM4_GRANTED);
}

TEST_F(ManyWaitingLocksTest, ARequestThatWaitsForItsCallCanBeCancelled) {
  hosts.hold = true;
  FreeMany();
  for (size_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(Cancel(bob, {.offset = 10 * i, .process = static_cast<int32_t>(i % 50)}), NLM4_GRANTED);
  }
  EXPECT_EQ(hosts.held(), 0u);
  EXPECT_EQ(Lock(carol, {.offset = 0, .length = 0}), NLM4_GRANTED);
}

TEST_F(WaitingLockTest, AHostThatNoLongerWaitsLosesTheLock) {
  hosts.status = NLM4_DENIED;
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, SizeIs(1));
  EXPECT_FALSE(BobHasTheLock());
}

// The lock would stay with a process that does not know of it.
TEST_F(WaitingLockTest, AHostThatFailsToTakeTheLockLosesIt) {
  for (const nlm4_stats status : {NLM4_DENIED_NOLOCKS, NLM4_BLOCKED, NLM4_STALE_FH, NLM4_FAILED}) {
    hosts.status = status;
    EXPECT_EQ(Lock(bob, {.offset = 2, .length = 3, .process = 8}, true), NLM4_BLOCKED);
    Unlock(alice, {});
    EXPECT_FALSE(BobHasTheLock()) << static_cast<int>(status);
    EXPECT_EQ(Unlock(carol, {}), NLM4_GRANTED);
    EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
  }
}

// A host that gets the same call twice takes the lock, and then denies it since it no longer waits.
TEST_F(WaitingLockTest, ACallIsSentOnlyOnce) {
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  EXPECT_TRUE(hosts.calls[0].to.only_once);
}

TEST_F(WaitingLockTest, ACallThatMayBeLostIsRepeatedSoon) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, SizeIs(1));
  Pass(std::chrono::seconds(1));
  EXPECT_THAT(hosts.calls, SizeIs(2));
  Pass(std::chrono::seconds(3));
  EXPECT_THAT(hosts.calls, SizeIs(2));
}

TEST_F(WaitingLockTest, LocksThatHostsDoNotTakeAreLoggedNowAndThen) {
  const CapturedLog log;
  hosts.status = NLM4_DENIED;
  EXPECT_EQ(Lock(carol, {.offset = 2, .length = 3}, true), NLM4_BLOCKED);
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, SizeIs(2));
  EXPECT_EQ(log.text(), "info: bob (192.0.2.2) does not take the lock that it waited for\n");
}

// Its answer to an earlier call may have been lost. Then it has the lock, and denies a second one.
TEST_F(WaitingLockTest, AHostThatMayHaveTheLockKeepsIt) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  hosts.outcome = HostCalls::Outcome::kAnswered;
  hosts.status = NLM4_DENIED;
  Pass(std::chrono::seconds(10));
  EXPECT_THAT(hosts.calls, SizeIs(2));
  EXPECT_TRUE(BobHasTheLock());
}

TEST_F(WaitingLockTest, AHostThatCannotBeReachedLosesTheLockInTheEnd) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  Unlock(alice, {});
  Pass(std::chrono::seconds(60));
  EXPECT_TRUE(BobHasTheLock());
  Pass(std::chrono::seconds(60));
  EXPECT_FALSE(BobHasTheLock());
  const size_t calls = hosts.calls.size();
  Pass(std::chrono::minutes(5));
  EXPECT_EQ(hosts.calls.size(), calls) << "it is left alone";
}

// A call may wait for others before it is made.
TEST_F(WaitingLockTest, AHostIsGivenUpOnlyAfterTheTimeSinceItsFirstCall) {
  hosts.hold = true;
  Unlock(alice, {});
  Pass(std::chrono::minutes(5));
  hosts.outcome = HostCalls::Outcome::kNotReached;
  hosts.Release();
  EXPECT_TRUE(BobHasTheLock());
  Pass(std::chrono::seconds(60));
  EXPECT_TRUE(BobHasTheLock());
  Pass(std::chrono::seconds(60));
  EXPECT_FALSE(BobHasTheLock());
}

TEST_F(WaitingLockTest, AHostThatDoesNotAnswerKeepsTheLockAndIsLeftAloneInTheEnd) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  Unlock(alice, {});
  Pass(std::chrono::minutes(20));
  EXPECT_TRUE(BobHasTheLock());
  const size_t calls = hosts.calls.size();
  Pass(std::chrono::minutes(5));
  EXPECT_EQ(hosts.calls.size(), calls);
}

TEST_F(WaitingLockTest, AHostInItsOwnGracePeriodIsToldAgain) {
  hosts.status = NLM4_DENIED_GRACE_PERIOD;
  Unlock(alice, {});
  ASSERT_THAT(hosts.calls, SizeIs(1));
  hosts.status = NLM4_GRANTED;
  Pass(std::chrono::seconds(10));
  EXPECT_THAT(hosts.calls, SizeIs(2));
  EXPECT_TRUE(BobHasTheLock());
}

TEST_F(CrowdedTest, TooManyRequestsOfOneHostOrOfAllAreDenied) {
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
  for (int process = 1; process <= 2; ++process) EXPECT_EQ(Lock(bob, {.process = process}, true), NLM4_BLOCKED);
  EXPECT_EQ(Lock(bob, {.process = 3}, true), NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(Lock({"another name of bob", bob.address}, {}, true), NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(Lock(bob, {.process = 2}, true), NLM4_BLOCKED) << "it waits already";
  for (int i = 10; i < 20; ++i) EXPECT_EQ(Lock({"host", "192.0.2." + std::to_string(i)}, {}, true), NLM4_BLOCKED);
  EXPECT_EQ(Lock(carol, {}, true), NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(Cancel(bob, {.process = 1}), NLM4_GRANTED);
  EXPECT_EQ(Lock(carol, {}, true), NLM4_BLOCKED);
}

TEST_F(WaitingLockTest, AnEndedHostWaitsNoMore) {
  Call<NLMPROC4_FREE_ALL>(bob, {.name = "bob", .state = 3});
  Unlock(alice, {});
  EXPECT_THAT(hosts.calls, IsEmpty());
  EXPECT_FALSE(BobHasTheLock());
}

TEST_F(WaitingLockTest, TheTablesAreEmptyWhenNoProcessWaits) {
  EXPECT_EQ(Lock(carol, {.offset = 2, .length = 3}, true), NLM4_BLOCKED);
  Cancel(bob, {.offset = 2, .length = 3, .process = 8});
  Unlock(carol, {.offset = 2, .length = 3});
  Unlock(alice, {});
  server.state.Run([&](v4::StateTables& state) { EXPECT_EQ(state.files.size(), 0u); });
}

TEST_F(WaitingLockTest, ProcessesThatWouldWaitForEachOtherAreToldSo) {
  EXPECT_EQ(Lock(bob, {.offset = 50, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(Lock(alice, {.offset = 50}, true), NLM4_DEADLCK);
  EXPECT_EQ(Lock(alice, {.offset = 50, .process = 2}, true), NLM4_BLOCKED) << "another process waits for nobody";
}

TEST_F(WaitingLockTest, ALongerCircleIsFoundAsWell) {
  EXPECT_EQ(Lock(bob, {.offset = 50, .process = 8}), NLM4_GRANTED);
  EXPECT_EQ(Lock(carol, {.offset = 70}), NLM4_GRANTED);
  EXPECT_EQ(Lock(carol, {.offset = 50}, true), NLM4_BLOCKED);
  EXPECT_EQ(Lock(alice, {.offset = 70}, true), NLM4_DEADLCK);
}

}  // namespace
}  // namespace penstock::nfs::nlm
