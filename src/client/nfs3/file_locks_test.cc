// Tests of the locks of version 3 against the server's lock manager.
#include "client/nfs3/file_locks.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>

#include "client/mount_test_support.h"
#include "protocol/nfs3.h"
#include "protocol/nlm4.h"

namespace penstock::client::v3 {
namespace {

using namespace nlm4;  // NOLINT: the protocol's own names, RFC 1813 appendix II
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kShared = LockKind::kShared;
constexpr auto kExclusive = LockKind::kExclusive;
constexpr ByteRange kRange{0, 10};

class FileLocksTest : public MountTestBase {
 protected:
  explicit FileLocksTest(TestService::Options service_options) : MountTestBase(std::move(service_options)) {
    Open(UrlOf(Version::k3));
    file = Create("file", "text");
  }
  FileLocksTest() : FileLocksTest({.lease = 300ms}) {}
  ~FileLocksTest() override { EndOther(); }

  // Another mount of this host, and its file.
  File& OpenOther(Version version = Version::k3) {
    auto opened = TryToOpen(UrlOf(version));
    if (!opened) throw std::runtime_error(opened.error().message);
    other = *std::move(opened);
    other_file = Do(other->OpenFile(Do(other->Lookup(other->root(), "file")), "file", Access::kBoth));
    return *other_file;
  }
  void EndOther() {
    if (!other) return;
    Do(other_file->Close());
    Run(other->Unmount());
    TurnFor(loop, Duration::zero());
    other_file.reset();
    other.reset();
    TurnFor(loop, Duration::zero());
  }

  bool IsDenied(File& by, std::string owner, LockKind kind, ByteRange range = kRange) {
    const Result<void> locked = Run(by.Lock(std::move(owner), range, kind));
    if (locked) return false;
    EXPECT_EQ(locked.error().status, Status::kDenied) << locked.error().message;
    return true;
  }
  // The server ends the connection of the lock manager. The client makes another one, and asks for its locks.
  void LoseLockConnection() {
    const size_t before = service.CountCalls(CallsOf<NLMPROC4_NULL>());
    service.LoseCall(CallsOf<NLMPROC4_TEST>());
    (void)Run(file->TestLock("owner", {100, 1}, kShared));
    EXPECT_GT(service.CountCalls(CallsOf<NLMPROC4_NULL>()), before);
  }
  // From the call number `skip` on, the server refuses so many UNLOCKs, because it is in its grace period.
  void PutUnlocksOff(size_t times, size_t skip = 0) {
    service.Answer<NLMPROC4_UNLOCK>({.cookie = {}, .stat = NLM4_DENIED_GRACE_PERIOD}, times, skip);
  }
  // Another client gets the lock as soon as it is free.
  void ExpectFree(ByteRange range) { Do(other_file->Lock("another", range, kExclusive, 10s)); }
  // The owner "one" locks {0, 5} and {50, 5}. After a restart, another client gets the second lock. The server then
  // puts three unlocks off, as in its grace period. Returns when the recovery has ended.
  void LoseOneOfTwoLocks() {
    Do(file->Lock("one", {0, 5}, kExclusive));
    Do(file->Lock("one", {50, 5}, kExclusive));
    OpenOther();
    service.Restart();
    ExpectFree({50, 5});
    PutUnlocksOff(3);
    LoseLockConnection();
    EXPECT_EQ(ErrorOf(file->Read(0, {})).status, Status::kExpired) << "the recovery has ended";
  }
  size_t CountLocks() const { return service.CountCalls(CallsOf<NLMPROC4_LOCK>()); }

  std::unique_ptr<File> file;
  std::unique_ptr<Mount> other;
  std::unique_ptr<File> other_file;
};

// ---- conflicts ----

TEST_F(FileLocksTest, ExcludeOtherOwnersOpenFilesAndMounts) {
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("one", kRange, kExclusive));
  EXPECT_TRUE(IsDenied(*file, "two", kShared));
  const auto again = OpenFile("file");
  EXPECT_TRUE(IsDenied(*again, "one", kShared));
  File& elsewhere = OpenOther();
  EXPECT_TRUE(IsDenied(elsewhere, "one", kShared));
  Do(elsewhere.Lock("one", {10, 10}, kExclusive));
  EXPECT_TRUE(IsDenied(*file, "one", kShared, {5, 10}));
}

TEST_F(FileLocksTest, ExcludeClientsOfVersion4) {
  Do(file->Lock("owner", kRange, kExclusive));
  File& elsewhere = OpenOther(Version::k41);
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared));
  Do(elsewhere.Lock("owner", {10, ByteRange::kToEnd}, kExclusive));
  EXPECT_TRUE(IsDenied(*file, "owner", kShared, {uint64_t{1} << 40, 1}));
}

TEST_F(FileLocksTest, ReplaceOlderLocksAndLeaveBothEnds) {
  Do(file->Lock("owner", {0, 100}, kExclusive));
  Do(file->Lock("owner", {40, 20}, kShared));
  File& elsewhere = OpenOther();
  Do(elsewhere.Lock("owner", {40, 20}, kShared));
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared, {39, 1}));
  Do(elsewhere.Unlock("owner", {40, 20}));
  Do(file->Unlock("owner", {40, 20}));
  Do(elsewhere.Lock("owner", {40, 20}, kExclusive));
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared, {60, 1}));
}

TEST_F(FileLocksTest, AreTested) {
  Do(file->Lock("owner", {5, ByteRange::kToEnd}, kShared));
  File& elsewhere = OpenOther();
  EXPECT_FALSE(Do(elsewhere.TestLock("owner", {0, 10}, kShared)));
  EXPECT_FALSE(Do(elsewhere.TestLock("owner", {0, 5}, kExclusive)));
  const auto conflict = Do(elsewhere.TestLock("owner", {0, 10}, kExclusive));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->range, (ByteRange{5, ByteRange::kToEnd}));
  EXPECT_EQ(conflict->kind, kShared);
  EXPECT_FALSE(Do(file->TestLock("owner", {0, 10}, kExclusive)));
}

TEST_F(FileLocksTest, RefuseRangesThatEndBehindTheLastOffset) {
  for (const ByteRange range : {ByteRange{0, 0}, ByteRange{~uint64_t{0}, 2}}) {
    EXPECT_EQ(ErrorOf(file->Lock("owner", range, kShared)).status, Status::kInvalid);
    EXPECT_EQ(ErrorOf(file->Unlock("owner", range)).status, Status::kInvalid);
    EXPECT_EQ(ErrorOf(file->TestLock("owner", range, kShared)).status, Status::kInvalid);
  }
  EXPECT_EQ(CountLocks(), 0u);
}

TEST_F(FileLocksTest, UnlockingWhatIsNotLockedNeedsNoCall) {
  Do(file->Unlock("nobody", {}));
  Do(file->Lock("owner", kRange, kShared));
  Do(file->Unlock("owner", {}));
  Do(file->Unlock("owner", {}));
  EXPECT_EQ(service.CountCalls(CallsOf<NLMPROC4_UNLOCK>()), 1u);
}

// ---- waits ----

TEST_F(FileLocksTest, WaitForAnotherOwner) {
  File& elsewhere = OpenOther();
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  std::optional<Result<void>> locked;
  Spawn(
      [](File& at, auto& out) -> Task<void> { out = co_await at.Lock("owner", kRange, kShared, 40s); }(*file, locked));
  ASSERT_TRUE(TurnUntil(loop, [&] { return CountLocks() >= 3; }));
  EXPECT_FALSE(locked);
  Do(elsewhere.Unlock("owner", kRange));
  ASSERT_TRUE(TurnUntil(loop, [&] { return locked.has_value(); }));
  EXPECT_TRUE(*locked);
}

TEST_F(FileLocksTest, EndTheWaitAtTheEndOfPatience) {
  File& elsewhere = OpenOther();
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  EXPECT_EQ(ErrorOf(file->Lock("owner", kRange, kShared, 50ms)).status, Status::kDenied);
  Cancellation impatience;
  std::optional<Result<void>> locked;
  Spawn([](File& at, Cancellation& interrupt, auto& out) -> Task<void> {
    out = co_await at.Lock("owner", kRange, kShared, 40s, &interrupt);
  }(*file, impatience, locked));
  TurnFor(loop, 30ms);
  EXPECT_FALSE(locked);
  impatience.Cancel();
  ASSERT_TRUE(TurnUntil(loop, [&] { return locked.has_value(); }));
  EXPECT_EQ(locked->error().status, Status::kDenied);
}

TEST_F(FileLocksTest, EndTheWaitWithTheMount) {
  File& elsewhere = OpenOther();
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  std::optional<Result<void>> locked;
  Spawn(
      [](File& at, auto& out) -> Task<void> { out = co_await at.Lock("owner", kRange, kShared, 40s); }(*file, locked));
  ASSERT_TRUE(TurnUntil(loop, [&] { return CountLocks() >= 3; }));
  TurnFor(loop, 10ms);
  mount->Abort();
  ASSERT_TRUE(locked);
  EXPECT_EQ(locked->error().number, ECANCELED) << locked->error().message;
}

// ---- the end ----

TEST_F(FileLocksTest, EndWithTheFile) {
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("two", {20, 5}, kExclusive));
  Do(file->Close());
  Do(OpenOther().Lock("owner", {}, kExclusive));
}

TEST_F(FileLocksTest, EndWithTheMount) {
  Do(file->Lock("one", kRange, kExclusive));
  Unmount();
  Do(OpenOther().Lock("owner", {}, kExclusive));
}

TEST_F(FileLocksTest, EndWithTheFileAfterTheGracePeriod) {
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("two", {20, 5}, kExclusive));
  PutUnlocksOff(3);
  Do(file->Close());
  OpenOther();
  ExpectFree({});
}

TEST_F(FileLocksTest, EndWithTheMountAfterTheGracePeriod) {
  Do(file->Lock("one", kRange, kExclusive));
  PutUnlocksOff(3);
  Unmount();
  OpenOther();
  ExpectFree({});
}

// The server's grace period ends, and then nobody can reclaim the locks of the other file any more.
TEST_F(FileLocksTest, AFileThatEndsInTheGracePeriodDoesNotHoldUpTheRecovery) {
  const auto second = Create("second", "more");
  Do(file->Lock("owner", kRange, kExclusive));
  Do(second->Lock("owner", kRange, kExclusive));
  service.Restart();
  PutUnlocksOff(7);
  std::optional<Result<void>> closed;
  Spawn([](File& at, auto& out) -> Task<void> { out = co_await at.Close(); }(*file, closed));
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(CallsOf<NLMPROC4_UNLOCK>()) > 0; }));
  service.LoseCall(CallsOf<NLMPROC4_TEST>());
  (void)Run(second->TestLock("owner", {100, 1}, kShared));
  EXPECT_EQ(Read(*second), "more") << "its lock is reclaimed";
  EXPECT_FALSE(closed);
  EXPECT_TRUE(TurnUntil(loop, [&] { return closed.has_value(); }));
}

// The server says that it has no room for the state of an UNLOCK.
TEST_F(FileLocksTest, TheEndOfTheMountGivesBackWhatTheEndOfTheFileCouldNot) {
  Do(file->Lock("one", kRange, kExclusive));
  service.Answer<NLMPROC4_UNLOCK>({.cookie = {}, .stat = NLM4_DENIED_NOLOCKS});
  Do(file->Close());
  OpenOther();
  EXPECT_TRUE(IsDenied(*other_file, "owner", kShared));
  Unmount();
  ExpectFree({});
}

TEST_F(FileLocksTest, TheNextMountGivesBackTheLocksOfADeadOne) {
  Unmount();
  std::string folder = testing::TempDir() + "/file-locks-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  options.lock_records = folder;
  Open(UrlOf(Version::k3));
  file = OpenFile("file");
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("two", {20, 5}, kExclusive));
  Do(file->Unlock("two", {}));
  // The server hears nothing of the end.
  mount->Abort();
  Unmount();
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  Open(UrlOf(Version::k3));
  file = OpenFile("file");
  ASSERT_TRUE(TurnUntil(loop, [&] { return std::filesystem::is_empty(folder); }));
  Do(file->Lock("owner", kRange, kExclusive));
  Do(file->Close());
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a mount that ends well leaves nothing";
  std::filesystem::remove_all(folder);
}

// ---- silent servers ----

class SilentLockManagerTest : public FileLocksTest {
 protected:
  SilentLockManagerTest() {
    Unmount();
    options.retry.give_up_after = kNoTimeLimit;
    Reopen(2);
  }
  // `timeo`: tenths of a second.
  void Reopen(uint32_t timeo) {
    Url url = UrlOf(Version::k3);
    url.recovery.kind = RecoveryOptions::Kind::kHard;
    url.recovery.timeo = timeo;
    Open(url);
    file = OpenFile("file");
  }
};

TEST_F(SilentLockManagerTest, TheMountEndsWhileLocksAreReclaimed) {
  Do(file->Lock("owner", kRange, kExclusive));
  service.HoldCall(CallsOf<NLMPROC4_LOCK>(), SIZE_MAX);
  const size_t before = CountLocks();
  LoseLockConnection();
  ASSERT_TRUE(TurnUntil(loop, [&] { return CountLocks() > before; }));
  Run(mount->Unmount());
}

TEST_F(SilentLockManagerTest, TheMountEndsWhileTheServerNeverEndsItsGracePeriod) {
  Do(file->Lock("owner", kRange, kExclusive));
  service.Answer<NLMPROC4_LOCK>({.cookie = {}, .stat = NLM4_DENIED_GRACE_PERIOD}, SIZE_MAX);
  const size_t before = CountLocks();
  LoseLockConnection();
  ASSERT_TRUE(TurnUntil(loop, [&] { return CountLocks() > before + 2; }));
  Unmount();
  OpenOther(Version::k41);
  ExpectFree({});
}

TEST_F(SilentLockManagerTest, TheMountEndsWhileItWaitsToGiveBackTheLocksOfADeadOne) {
  Unmount();
  std::string folder = testing::TempDir() + "/file-locks-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  options.lock_records = folder;
  Reopen(600);
  Do(file->Lock("one", kRange, kExclusive));
  mount->Abort();
  Unmount();
  service.HoldCall(CallsOf<nfs3::NFSPROC3_NULL>(), SIZE_MAX);
  const size_t before = service.CountCalls(CallsOf<nfs3::NFSPROC3_NULL>());
  Reopen(600);
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(CallsOf<nfs3::NFSPROC3_NULL>()) > before; }));
  Run(mount->Unmount());
  EXPECT_FALSE(std::filesystem::is_empty(folder)) << "the next mount tries again";
  std::filesystem::remove_all(folder);
}

// ---- servers without a lock manager ----

class NoLockManagerTest : public FileLocksTest {
 protected:
  NoLockManagerTest() : FileLocksTest({.nlm = false}) {}
};

TEST_F(NoLockManagerTest, AreRefusedWithAdvice) {
  const Error error = ErrorOf(file->Lock("owner", kRange, kExclusive));
  EXPECT_EQ(error.number, ENOLCK);
  EXPECT_THAT(error.message, HasSubstr("no lock manager (NLM)"));
  EXPECT_THAT(error.message, HasSubstr("nolock"));
  // Nothing else needs the lock manager.
  EXPECT_EQ(Read(*file), "text");
  service.LoseCall(CallsOf<nfs3::NFSPROC3_GETATTR>());
  Do(mount->GetAttributes(file->node().handle, "file"));
  EXPECT_EQ(Read(*file), "text");
  const size_t before = service.CountCalls(CallsOf<NLMPROC4_NULL>());
  Do(file->Unlock("owner", {}));
  Do(file->Close());
  EXPECT_EQ(service.CountCalls(CallsOf<NLMPROC4_NULL>()), before);
}

TEST_F(FileLocksTest, AnIdleMountHasNoConnectionToTheLockManager) {
  EXPECT_EQ(service.CountCalls(CallsOf<NLMPROC4_NULL>()), 0u);
  Do(file->Lock("owner", kRange, kExclusive));
  EXPECT_EQ(service.CountCalls(CallsOf<NLMPROC4_NULL>()), 1u);
}

// ---- restarts ----

TEST_F(FileLocksTest, AreReclaimedWhenTheLockManagersConnectionWasLost) {
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("two", {20, 5}, kShared));
  service.Restart();
  LoseLockConnection();
  EXPECT_EQ(Read(*file), "text");
  File& elsewhere = OpenOther();
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared));
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kExclusive, {20, 5}));
  Do(file->Unlock("one", {}));
  Do(file->Unlock("two", {}));
  Do(elsewhere.Lock("owner", {}, kExclusive));
}

TEST_F(FileLocksTest, AreReclaimedWhenTheConnectionOfNfsWasLost) {
  Do(file->Lock("owner", kRange, kExclusive));
  service.Restart();
  const size_t before = CountLocks();
  service.LoseCall(CallsOf<nfs3::NFSPROC3_READ>());
  EXPECT_EQ(Read(*file), "text");
  // The first request is refused in the grace period, the second one is a reclaim.
  ASSERT_TRUE(TurnUntil(loop, [&] { return CountLocks() >= before + 2; }));
  EXPECT_TRUE(IsDenied(OpenOther(), "owner", kShared));
}

TEST_F(FileLocksTest, StayIfOnlyTheConnectionWasLost) {
  Do(file->Lock("owner", kRange, kExclusive));
  const size_t before = CountLocks();
  LoseLockConnection();
  EXPECT_EQ(Read(*file), "text");
  EXPECT_EQ(CountLocks(), before + 1);
  EXPECT_TRUE(IsDenied(OpenOther(), "owner", kShared));
}

TEST_F(FileLocksTest, AsksAfterTheGracePeriodForTheLocksOfOthers) {
  Do(file->Lock("owner", kRange, kExclusive));
  File& elsewhere = OpenOther();
  service.Restart();
  const size_t before = CountLocks();
  // Nobody reclaims the lock of the first mount: its connections are not lost.
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  EXPECT_GT(CountLocks(), before + 1) << "the server has no grace period";
}

TEST_F(FileLocksTest, AreLostToAnotherClient) {
  Do(file->Lock("one", kRange, kExclusive));
  Do(file->Lock("one", {50, 5}, kExclusive));
  Do(file->Lock("two", {20, 5}, kExclusive));
  File& elsewhere = OpenOther();
  service.Restart();
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  LoseLockConnection();
  EXPECT_EQ(ErrorOf(file->Read(0, {})).status, Status::kExpired);
  EXPECT_EQ(Write(*file, "new").error().status, Status::kExpired);
  const Error error = ErrorOf(file->Lock("one", {30, 5}, kExclusive));
  EXPECT_EQ(error.status, Status::kExpired);
  EXPECT_THAT(error.message, HasSubstr("restarted"));
  // The owner has been told. It has lost all of its locks, and the other owner none.
  EXPECT_EQ(Read(*file), "text");
  Do(elsewhere.Lock("owner", {50, 5}, kExclusive));
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kExclusive, {20, 5}));
  Do(elsewhere.Unlock("owner", {}));
  Do(file->Lock("one", kRange, kExclusive));
}

TEST_F(FileLocksTest, TheOtherLocksOfAnOwnerThatLosesOneEndAfterTheGracePeriod) {
  LoseOneOfTwoLocks();
  ExpectFree({0, 5});
}

TEST_F(FileLocksTest, AnOwnerGivesItsLostLocksBackBeforeItLocksAgain) {
  LoseOneOfTwoLocks();
  EXPECT_EQ(ErrorOf(file->Lock("one", {0, 5}, kExclusive)).status, Status::kExpired);
  Do(file->Lock("one", {0, 5}, kExclusive));
  TurnFor(loop, 500ms);
  EXPECT_TRUE(IsDenied(*other_file, "another", kShared, {0, 5}));
}

TEST_F(FileLocksTest, ALockThatFailsForALossEndsAfterTheGracePeriod) {
  Do(file->Lock("one", kRange, kExclusive));
  OpenOther();
  service.Restart();
  ExpectFree(kRange);
  // The first UNLOCK is that of the recovery.
  PutUnlocksOff(3, 1);
  const size_t before = service.CountCalls(CallsOf<NLMPROC4_NULL>());
  service.LoseCall(CallsOf<NLMPROC4_TEST>());
  std::optional<Result<std::optional<LockConflict>>> tested;
  Spawn(
      [](File& at, auto& out) -> Task<void> { out = co_await at.TestLock("owner", {100, 1}, kShared); }(*file, tested));
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(CallsOf<NLMPROC4_NULL>()) > before; }));
  EXPECT_EQ(ErrorOf(file->Lock("one", {30, 5}, kExclusive)).status, Status::kExpired);
  ExpectFree({30, 5});
  EXPECT_TRUE(TurnUntil(loop, [&] { return tested.has_value(); }));
}

TEST_F(FileLocksTest, AnUnlockTellsOfTheLossAsWell) {
  Do(file->Lock("owner", kRange, kExclusive));
  File& elsewhere = OpenOther();
  service.Restart();
  Do(elsewhere.Lock("owner", kRange, kExclusive));
  LoseLockConnection();
  EXPECT_EQ(ErrorOf(file->Unlock("owner", kRange)).status, Status::kExpired);
  Do(file->Unlock("owner", kRange));
  EXPECT_TRUE(IsDenied(*file, "owner", kShared));
}

TEST_F(FileLocksTest, AnUnlockDuringTheRestartIsNotReclaimed) {
  Do(file->Lock("owner", kRange, kExclusive));
  service.LoseReplyInRestart(CallsOf<NLMPROC4_UNLOCK>());
  Do(file->Unlock("owner", kRange));
  Do(OpenOther().Lock("owner", kRange, kExclusive));
}

TEST_F(FileLocksTest, ALockDuringTheRestartIsHeldOnce) {
  service.LoseReplyInRestart(CallsOf<NLMPROC4_LOCK>());
  Do(file->Lock("owner", kRange, kExclusive));
  File& elsewhere = OpenOther();
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared));
  Do(file->Unlock("owner", kRange));
  Do(elsewhere.Lock("owner", kRange, kExclusive));
}

// ---- replies ----

TEST_F(FileLocksTest, ALostReplyIsAskedForAgain) {
  service.LoseReply(CallsOf<NLMPROC4_LOCK>());
  service.LoseReply(CallsOf<NLMPROC4_UNLOCK>());
  Do(file->Lock("owner", kRange, kExclusive));
  File& elsewhere = OpenOther();
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared));
  Do(file->Unlock("owner", kRange));
  Do(elsewhere.Lock("owner", kRange, kShared));
}

TEST_F(FileLocksTest, AMalformedReplyMayHaveLeftALock) {
  service.TruncateReply(CallsOf<NLMPROC4_LOCK>());
  const Error error = ErrorOf(file->Lock("owner", kRange, kExclusive));
  EXPECT_EQ(error.number, EPROTO) << error.message;
  File& elsewhere = OpenOther();
  EXPECT_TRUE(IsDenied(elsewhere, "owner", kShared));
  Do(file->Close());
  Do(elsewhere.Lock("owner", kRange, kShared));
}

TEST_F(FileLocksTest, StatusesBecomeErrors) {
  const std::pair<nlm4_stats, int> expected[] = {
      {NLM4_DENIED, EAGAIN}, {NLM4_DENIED_NOLOCKS, ENOLCK}, {NLM4_BLOCKED, EPROTO}, {NLM4_DEADLCK, EDEADLK},
      {NLM4_ROFS, EROFS},    {NLM4_STALE_FH, ESTALE},       {NLM4_FBIG, EINVAL},    {NLM4_FAILED, ENOLCK}};
  for (const auto& [status, number] : expected) {
    service.Answer<NLMPROC4_LOCK>({.cookie = {}, .stat = status});
    const Error error = ErrorOf(file->Lock("owner", kRange, kExclusive));
    EXPECT_EQ(error.number, number) << error.message;
  }
}

TEST_F(FileLocksTest, RejectConflictsThatNoLockCanHave) {
  const nlm4_holder holder{.exclusive = true, .svid = 1, .oh = {}, .l_offset = ~uint64_t{0}, .l_len = 2};
  service.Answer<NLMPROC4_TEST>({.cookie = {}, .test_stat = nlm4_testrply(NLM4_DENIED, holder)});
  EXPECT_EQ(ErrorOf(file->TestLock("owner", kRange, kShared)).number, EPROTO);
}

}  // namespace
}  // namespace penstock::client::v3
