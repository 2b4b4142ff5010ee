// Byte-range locks on a whole server, through the client library, over real sockets.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <semaphore>
#include <thread>

#include "server/test_server.h"

namespace penstock::server {
namespace {

// Another client checks which ranges the client of AClientReclaimsItsLocksAfterTheServerRestarts has locked.
Task<client::Result<void>> Probe(client::Mount& mount) {
  using client::LockKind;
  PENSTOCK_CO_TRY(const client::Node node, co_await Find(mount, "file"));
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", client::Access::kBoth));
  co_await ExpectRefusal(file->Lock("me", {0, 20}, LockKind::kShared), client::Status::kDenied);
  co_await ExpectRefusal(file->Lock("me", {30, 70}, LockKind::kShared), client::Status::kDenied);
  co_await ExpectRefusal(file->Lock("me", {1 << 20, 1}, LockKind::kExclusive), client::Status::kDenied);
  PENSTOCK_CO_CHECK(co_await file->Lock("me", {20, 10}, LockKind::kShared));
  PENSTOCK_CO_CHECK(co_await file->Lock("me", {100, 100}, LockKind::kExclusive));
  co_return co_await file->Close();
}

// RFC 8881 §8.3, RFC 7530 §9.6.3: a client whose lease has expired loses a lock that another client wants, and is told.
TEST_P(ServerTest, FailsReadsAndWritesUnderALostLockUntilItsOwnerLocksAgain) {
  if (version() == Version::k3) GTEST_SKIP() << "has no locks";
  grace_ = std::chrono::seconds(2);
  StartServer();
  const auto error = WithMount([this](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    using client::LockKind;
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {0, 10}, LockKind::kExclusive));
    std::array<std::byte, 16> buffer{};
    std::optional<client::Error> failure;
    std::binary_semaphore locked(0);
    std::binary_semaphore seen(0);
    // This client's loop does not run until the other client has the lock. The other client's loop runs all the time,
    // so that it keeps its lease.
    std::thread other([&] {
      failure = WithMount([&](client::Mount& theirs, Workers&) -> Task<client::Result<void>> {
        PENSTOCK_CO_TRY(const client::Node node, co_await Find(theirs, "file"));
        PENSTOCK_CO_TRY(const auto same, co_await theirs.OpenFile(node, "file", client::Access::kBoth));
        auto had = co_await same->Lock("two", {0, 10}, LockKind::kExclusive, std::chrono::minutes(2));
        locked.release();
        while (!seen.try_acquire()) co_await Sleep(theirs.loop(), std::chrono::milliseconds(10));
        if (!had) co_return had;
        co_return co_await same->Close();
      });
    });
    locked.acquire();
    // The first call tells the client that the lock is lost. Later reads and writes must not go on as if they were
    // locked.
    co_await ExpectRefusal(file->Write(0, AsBytes("mine")), client::Status::kExpired);
    co_await ExpectRefusal(file->Write(0, AsBytes("mine")), client::Status::kExpired);
    co_await ExpectRefusal(file->Read(0, buffer), client::Status::kExpired);
    co_await ExpectRefusal(file->Lock("one", {20, 10}, LockKind::kExclusive), client::Status::kExpired);
    co_await ExpectRefusal(file->Lock("one", {0, 10}, LockKind::kExclusive), client::Status::kDenied);
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {20, 10}, LockKind::kExclusive));
    PENSTOCK_CO_TRY(const auto read, co_await file->Read(0, buffer));
    EXPECT_TRUE(read.eof && read.count == 0) << "nothing was written";
    PENSTOCK_CO_CHECK(co_await file->Write(20, AsBytes("mine")));
    seen.release();
    other.join();
    EXPECT_FALSE(failure) << failure->message;
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ServerTest, LocksConflictWithTheLocksOfOtherOwners) {
  if (version() == Version::k3) GTEST_SKIP() << "has none";
  StartServer();
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    using client::LockKind;
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_TRY(const auto again, co_await mount.OpenFile(file->node(), "again", client::Access::kBoth));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {0, 100}, LockKind::kExclusive));
    co_await ExpectRefusal(file->Lock("two", {50, 100}, LockKind::kShared), client::Status::kDenied);
    co_await ExpectRefusal(again->Lock("one", {50, 100}, LockKind::kShared), client::Status::kDenied);
    co_await ExpectRefusal(file->Lock("one", {5, 0}, LockKind::kShared), client::Status::kInvalid);
    PENSTOCK_CO_TRY(const auto conflict, co_await file->TestLock("two", {50, 100}, LockKind::kShared));
    EXPECT_TRUE(conflict && conflict->range == (client::ByteRange{0, 100}) && conflict->kind == LockKind::kExclusive);
    PENSTOCK_CO_TRY(const auto own, co_await file->TestLock("one", {50, 100}, LockKind::kShared));
    EXPECT_FALSE(own);
    PENSTOCK_CO_CHECK(co_await file->Lock("two", {100, 1}, LockKind::kExclusive));

    // The owner unlocks a piece, which another owner locks; then the rest.
    PENSTOCK_CO_CHECK(co_await file->Unlock("one", {40, 20}));
    PENSTOCK_CO_CHECK(co_await again->Lock("three", {45, 5}, LockKind::kShared));
    co_await ExpectRefusal(again->Lock("three", {0, 50}, LockKind::kShared), client::Status::kDenied);
    PENSTOCK_CO_CHECK(co_await file->Unlock("one", {}));
    PENSTOCK_CO_CHECK(co_await again->Lock("three", {0, 50}, LockKind::kShared));
    PENSTOCK_CO_CHECK(co_await again->Unlock("nobody", {}));
    PENSTOCK_CO_CHECK(co_await file->Close());
    // Closing the file has released its locks.
    PENSTOCK_CO_CHECK(co_await again->Lock("three", {}, LockKind::kExclusive));
    co_return co_await again->Close();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ServerTest, AClientCanWaitForALock) {
  if (version() == Version::k3) GTEST_SKIP() << "has no locks";
  StartServer();
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {}, client::LockKind::kExclusive));
    bool unlocked = false;
    Spawn([](Loop& loop, client::File& f, bool& done) -> Task<> {
      co_await Sleep(loop, std::chrono::milliseconds(100));
      done = true;
      const auto result = co_await f.Unlock("one", {});
      EXPECT_TRUE(result);
    }(mount.loop(), *file, unlocked));
    PENSTOCK_CO_CHECK(co_await file->Lock("two", {}, client::LockKind::kShared, std::chrono::minutes(2)));
    EXPECT_TRUE(unlocked);
    const TimePoint began = mount.loop().Now();
    co_await ExpectRefusal(file->Lock("one", {}, client::LockKind::kExclusive, std::chrono::milliseconds(200)),
                           client::Status::kDenied);
    EXPECT_GE(mount.loop().Now() - began, std::chrono::milliseconds(200));
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
}

// RFC 8881 §8.4.2.1, RFC 7530 §9.6.2: another client must wait until the grace period ends, and then finds the ranges
// locked.
TEST_P(ServerTest, AClientReclaimsItsLocksAfterTheServerRestarts) {
  if (version() == Version::k3) GTEST_SKIP() << "has no locks";
  grace_ = std::chrono::seconds(3);
  StartServer();
  const auto error = WithMount([this](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
    using client::LockKind;
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {0, 100}, LockKind::kExclusive));
    PENSTOCK_CO_CHECK(co_await file->Lock("one", {20, 10}, LockKind::kShared));
    PENSTOCK_CO_CHECK(co_await file->Lock("two", {200, client::ByteRange::kToEnd}, LockKind::kShared));
    RestartServer();
    // The next call of this client, whichever it is, reclaims the locks first.
    PENSTOCK_CO_TRY(const client::Node found, co_await Find(mount, "file"));

    PENSTOCK_CO_CHECK(
        co_await WithAnotherMount(mount, workers, [](client::Mount& other, Workers&) { return Probe(other); }));
    PENSTOCK_CO_CHECK(co_await file->Unlock("one", {}));
    PENSTOCK_CO_CHECK(co_await file->Unlock("two", {}));
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
}

}  // namespace
}  // namespace penstock::server
