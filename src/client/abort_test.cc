// Tests of Mount::Abort(), in all versions: the calls of a mount end although the server does not answer.
#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <latch>

#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::EndsWith;

// The result of a task that has been started, once the task is done.
template <class T>
using Outcome = std::shared_ptr<std::optional<Result<T>>>;

template <class T>
Outcome<T> Start(Task<Result<T>> task) {
  auto outcome = std::make_shared<std::optional<Result<T>>>();
  Spawn([](Task<Result<T>> inner, Outcome<T> out) -> Task<void> { out->emplace(co_await std::move(inner)); }(
                                                      std::move(task), outcome));
  return outcome;
}

template <class T>
void ExpectEnded(const Outcome<T>& outcome) {
  ASSERT_TRUE(outcome->has_value()) << "Abort() over TCP ends the calls before it returns";
  ASSERT_FALSE(**outcome);
  const Error& error = (*outcome)->error();
  EXPECT_EQ(error.number, ECANCELED) << error.message;
  EXPECT_THAT(error.message, EndsWith(": the mount is closing"));
  EXPECT_FALSE(error.status);
}

// A server that grants delegations, and a client that waits for a minute before it connects a second time.
class AbortTest : public VersionedMountTest {
 protected:
  AbortTest() : VersionedMountTest({.lease = 2s, .delegations = 16}) {
    Unmount();
    options.retry = {.first_delay = 60s, .longest_delay = 60s, .give_up_after = 300s};
    Url url = UrlOf(GetParam());
    url.recovery.timeout = 300;
    Open(url);
  }

  static CallMatcher EveryCall() {
    return [](const SeenCall&) { return true; };
  }
  // Waits until `count` more calls that match have arrived.
  void AwaitCalls(const CallMatcher& matches, size_t before, size_t count = 1) {
    ASSERT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(matches) >= before + count; }));
  }
  Outcome<File::ReadReply> StartRead(File& file) { return Start(file.Read(0, octets)); }

  std::array<std::byte, 16> octets{};
};
INSTANTIATE_TEST_SUITE_P(Version, AbortTest, testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AbortTest, EndsTheCallsThatAreUnderWay) {
  const auto file = Create("file", "contents");
  const Node node = Do(mount->Lookup(root(), "file"));
  const size_t before = service.CountCalls(EveryCall());
  service.HoldCall(EveryCall(), SIZE_MAX);
  const auto read = StartRead(*file);
  const auto written = Start(file->Write(0, AsBytes("text")));
  const auto committed = Start(file->Commit());
  const auto listed = Start(mount->List(root(), "/", [](const Entry&) {}));
  const auto found = Start(mount->Lookup(root(), "file"));
  const auto linked = Start(mount->ReadLink(root(), "root"));
  const auto set = Start(mount->SetAttributes(node.handle, "file", {.mode = 0600}));
  const auto space = Start(mount->GetSpace(root(), "root"));
  const auto made = Start(mount->MakeDirectory(root(), "directory", 0755));
  const auto created = Start(mount->CreateFile(root(), "other", 0644, CreateMode::kExclusive));
  const auto resolved = Start(mount->Resolve("a/b"));
  const auto pinged = Start(mount->Ping());
  AwaitCalls(EveryCall(), before, 12);
  mount->Abort();
  ExpectEnded(read);
  ExpectEnded(written);
  ExpectEnded(committed);
  ExpectEnded(listed);
  ExpectEnded(found);
  ExpectEnded(linked);
  ExpectEnded(set);
  ExpectEnded(space);
  ExpectEnded(made);
  ExpectEnded(created);
  ExpectEnded(resolved);
  ExpectEnded(pinged);
}

TEST_P(AbortTest, LaterCallsFailAtOnceWithoutTheServer) {
  auto file = Create("file", "contents");
  const Node node = Do(mount->Lookup(root(), "file"));
  mount->Abort();
  const size_t before = service.CountCalls(EveryCall());
  ExpectEnded(StartRead(*file));
  ExpectEnded(Start(file->Write(0, AsBytes("text"))));
  ExpectEnded(Start(mount->GetAttributes(node.handle, "file")));
  ExpectEnded(Start(mount->OpenFile(node, "file", Access::kRead)));
  ExpectEnded(Start(mount->CreateFile(root(), "other", 0644)));
  ExpectEnded(Start(mount->List(root(), "/", [](const Entry&) {})));
  ExpectEnded(Start(mount->Resolve("")));
  ExpectEnded(Start(mount->Ping()));
  file.reset();
  Unmount();
  TurnFor(loop, 1ms);
  EXPECT_EQ(service.CountCalls(EveryCall()), before);
}

TEST_P(AbortTest, ASecondTimeDoesNothing) {
  const auto file = Create("file", "contents");
  service.HoldCall(EveryCall(), SIZE_MAX);
  const auto read = StartRead(*file);
  mount->Abort();
  mount->Abort();
  ExpectEnded(read);
}

TEST_P(AbortTest, EndsTheWaitForAConnection) {
  const auto file = Create("file", "contents");
  service.LoseCall(EveryCall(), SIZE_MAX);
  const size_t before = service.CountCalls(Reads());
  const auto first = StartRead(*file);
  // The client has connected again, and has lost that connection, too: now it waits.
  ASSERT_TRUE(TurnUntil(loop, [&] { return !mount->trouble().message.empty(); }));
  TurnFor(loop, 1ms);
  EXPECT_GE(service.CountCalls(Reads()), before + 1);
  std::array<std::byte, 16> others{};
  const auto second = Start(file->Read(0, others));
  EXPECT_FALSE(first->has_value());
  EXPECT_FALSE(second->has_value());
  mount->Abort();
  ExpectEnded(first);
  ExpectEnded(second);
}

TEST_P(AbortTest, EndsTheConnectionThatIsBeingMade) {
  const auto file = Create("file", "contents");
  service.LoseCall(Reads());
  service.HoldCall(EveryCall(), SIZE_MAX);
  const auto read = StartRead(*file);
  // The first turns of the loop lose the connection, and begin the next one.
  for (int turns = 0; turns < 3; ++turns) loop.context().run_one_for(10ms);
  mount->Abort();
  ASSERT_TRUE(TurnUntil(loop, [&] { return read->has_value(); }));
  ExpectEnded(read);
}

TEST_P(AbortTest, EndsTheDelayThatTheServerAsksFor) {
  const auto file = Create("file", "contents");
  const size_t before = service.CountCalls(Reads());
  if (is_version_3()) {
    service.Answer<nfs3::NFSPROC3_READ>(nfs3::READ3res(nfs3::NFS3ERR_JUKEBOX), SIZE_MAX);
  } else {
    service.FailOperation(nfs_opnum4::OP_READ, nfsstat4::NFS4ERR_DELAY, SIZE_MAX);
  }
  const auto read = StartRead(*file);
  AwaitCalls(Reads(), before, 4);
  TurnFor(loop, 10ms);
  EXPECT_FALSE(read->has_value());
  mount->Abort();
  ExpectEnded(read);
}

// The continuation of a call runs inside of the connection.
TEST_P(AbortTest, ACallThatHasJustEndedMayAbortTheMount) {
  const auto file = Create("file", "contents");
  bool ended = false;
  Spawn([](Mount& self, File& of, Bytes into, bool& done) -> Task<void> {
    const auto read = co_await of.Read(0, into);
    EXPECT_TRUE(read);
    self.Abort();
    const auto again = co_await of.Read(0, into);
    EXPECT_FALSE(again);
    done = true;
  }(*mount, *file, octets, ended));
  ASSERT_TRUE(TurnUntil(loop, [&] { return ended; }));
}

TEST_P(AbortTest, AListingMayAbortTheMount) {
  Do(Create("file")->Close());
  const auto entry = [this](const Entry&) { mount->Abort(); };
  (void)Run(mount->List(root(), "/", entry));
  ExpectEnded(Start(mount->Resolve("file")));
}

TEST_P(AbortTest, EndsAnUnmountThatTheServerDoesNotAnswer) {
  Do(Create("file", "contents")->Close());
  Do(OpenFile("file", Access::kRead)->Close());
  service.HoldCall(EveryCall(), SIZE_MAX);
  bool done = false;
  Spawn([](Mount& self, bool& out) -> Task<void> {
    co_await self.Unmount();
    out = true;
  }(*mount, done));
  TurnFor(loop, 1ms);
  EXPECT_EQ(done, is_version_3() || GetParam() == Version::k40) << "other versions end their session";
  mount->Abort();
  EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  TurnFor(loop, Duration::zero());
  mount.reset();
}

// A client that waits for a server without a limit, except while it ends.
class SilentServerTest : public VersionedMountTest {
 protected:
  SilentServerTest() : VersionedMountTest({.lease = 2s, .delegations = 16}) {
    Unmount();
    options.retry.give_up_after = kNoTimeLimit;
    Url url = UrlOf(GetParam());
    url.recovery.kind = RecoveryOptions::Kind::kHard;
    url.recovery.timeo = 2;  // tenths of a second
    Open(url);
  }
};
INSTANTIATE_TEST_SUITE_P(Version, SilentServerTest,
                         testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(SilentServerTest, AnUnmountWithOpenAndLockedFilesEnds) {
  const auto file = Create("file", "contents");
  const auto other = Create("other", "contents");
  for (const char* const owner : {"one", "two"}) Do(file->Lock(owner, {}, LockKind::kShared));
  Do(other->Lock("one", {}, LockKind::kExclusive));
  service.HoldCall([](const SeenCall&) { return true; }, SIZE_MAX);
  Run(mount->Unmount());
}

// ---- while the mount is opened

TEST_P(AbortTest, EachCallOfTheOpeningCanBeCancelled) {
  Unmount();
  Url url = UrlOf(GetParam());
  url.recovery.timeout = 300;
  size_t skip = 0;
  for (;; ++skip) {
    Cancellation cancellation;
    options.cancellation = &cancellation;
    auto left = std::make_shared<size_t>(skip);
    auto held = std::make_shared<bool>(false);
    service.HoldCall([left, held](const SeenCall&) {
      if (*left == SIZE_MAX) return false;
      if ((*left)-- > 0) return false;
      *held = true;
      return true;
    });
    auto opened = std::make_shared<std::optional<Result<std::unique_ptr<Mount>>>>();
    Spawn([](Task<Result<std::unique_ptr<Mount>>> task, auto out) -> Task<void> {
      out->emplace(co_await std::move(task));
    }(Mount::Open(loop, workers, url, options), opened));
    ASSERT_TRUE(TurnUntil(loop, [&] { return *held || opened->has_value(); }));
    if (opened->has_value()) {
      *left = SIZE_MAX;
      ASSERT_TRUE(**opened) << (*opened)->error().message;
      mount = **std::move(*opened);
      break;
    }
    cancellation.Cancel();
    ASSERT_TRUE(TurnUntil(loop, [&] { return opened->has_value(); }));
    ASSERT_FALSE(**opened);
    EXPECT_EQ((*opened)->error().number, ECANCELED) << skip << ": " << (*opened)->error().message;
    EXPECT_THAT((*opened)->error().message, EndsWith(": the mount is closing"));
    TurnFor(loop, Duration::zero());
  }
  EXPECT_GE(skip, 3u);
  options.cancellation = nullptr;
  Do(mount->Ping());
}

// The look-up of the host's name waits for a thread.
TEST_P(AbortTest, TheLookUpOfTheHostCanBeCancelled) {
  const auto release = std::make_shared<std::latch>(1);
  for (int i = 0; i < 2; ++i) workers.Post([release] { release->wait(); });
  Cancellation cancellation;
  options.cancellation = &cancellation;
  const Url url = UrlOf(GetParam());
  const auto opened = Start(Mount::Open(loop, workers, url, options));
  TurnFor(loop, 1ms);
  EXPECT_FALSE(opened->has_value());
  cancellation.Cancel();
  EXPECT_TRUE(TurnUntil(loop, [&] { return opened->has_value(); }));
  const auto again = Start(Mount::Open(loop, workers, url, options));
  EXPECT_TRUE(again->has_value()) << "it was cancelled before";
  options.cancellation = nullptr;
  release->count_down();
  for (const auto& each : {opened, again}) {
    ASSERT_FALSE(**each);
    EXPECT_EQ((*each)->error().number, ECANCELED);
  }
}

// ---- version 4 ----

class Nfs4AbortTest : public AbortTest {
 protected:
  bool has_session() const { return GetParam() != Version::k40; }
};
INSTANTIATE_TEST_SUITE_P(Version, Nfs4AbortTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Nfs4AbortTest, EndsTheWaitForALock) {
  const auto file = Create("file", "contents");
  Do(file->Lock("one", {}, LockKind::kExclusive));
  const CallMatcher locks = CompoundsWith(nfs_opnum4::OP_LOCK);
  const size_t before = service.CountCalls(locks);
  const auto locked = Start(file->Lock("two", {}, LockKind::kExclusive, 300s));
  AwaitCalls(locks, before, 3);
  TurnFor(loop, 10ms);
  EXPECT_FALSE(locked->has_value());
  mount->Abort();
  ExpectEnded(locked);
}

TEST_P(Nfs4AbortTest, EndsTheRecoveryOfTheState) {
  const auto file = Create("file", "contents");
  const CallMatcher recovery = CompoundsWith(has_session() ? nfs_opnum4::OP_EXCHANGE_ID : nfs_opnum4::OP_SETCLIENTID);
  const size_t before = service.CountCalls(recovery);
  service.HoldCall(recovery, SIZE_MAX);
  service.Restart();
  const auto read = StartRead(*file);
  std::array<std::byte, 16> others{};
  const auto second = Start(file->Read(0, others));
  AwaitCalls(recovery, before);
  EXPECT_FALSE(read->has_value());
  mount->Abort();
  ExpectEnded(read);
  ExpectEnded(second);
}

TEST_P(Nfs4AbortTest, EndsTheWaitForTheGracePeriod) {
  const auto file = Create("file", "contents");
  Do(Create("other")->Close());
  const CallMatcher opens = CompoundsWith(nfs_opnum4::OP_OPEN);
  service.FailOperation(nfs_opnum4::OP_OPEN, nfsstat4::NFS4ERR_GRACE, SIZE_MAX);
  const size_t before = service.CountCalls(opens);
  const auto opened = Start(mount->CreateFile(root(), "other", 0644));
  AwaitCalls(opens, before, 3);
  mount->Abort();
  ExpectEnded(opened);
}

TEST_P(Nfs4AbortTest, EndsTheRenewalOfTheLease) {
  const size_t before = service.CountCalls(EveryCall());
  service.HoldCall(EveryCall(), SIZE_MAX);
  AwaitCalls(EveryCall(), before);
  mount->Abort();
  Unmount();
}

// The calls of a session wait for slots.
TEST_P(Nfs4AbortTest, EndsMoreCallsThanTheServerTakesAtOnce) {
  service.HoldCall(EveryCall(), SIZE_MAX);
  std::vector<Outcome<Attributes>> outcomes;
  outcomes.reserve(200);
  for (int i = 0; i < 200; ++i) outcomes.push_back(Start(mount->GetAttributes(root(), "root")));
  TurnFor(loop, 1ms);
  mount->Abort();
  for (const auto& outcome : outcomes) ExpectEnded(outcome);
}

}  // namespace
}  // namespace penstock::client
