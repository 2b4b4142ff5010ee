// One suite over both stores.
#include "nfs/v4/state/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include "base/database/database.h"
#include "nfs/v4/state/recovery_queue.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::chrono::seconds kLease{90};
const std::chrono::sys_seconds kNow{std::chrono::seconds(1'700'000'000)};

const RecoveryRecord kOne{OwnerKey(1, std::string_view("o\0ne", 4)), {rpc::AuthFlavor::AUTH_SYS, 0}};
const RecoveryRecord kTwo{OwnerKey(0, "two"), {rpc::AuthFlavor::AUTH_NONE, 4'000'000'000}};

class RecoveryTest : public testing::TestWithParam<const char*> {
 protected:
  RecoveryTest() {
    if (in_memory()) return;
    std::string name = testing::TempDir() + "/recovery.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    path_ = name;
  }
  ~RecoveryTest() override {
    store_.reset();
    if (!in_memory()) std::filesystem::remove_all(path_);
  }
  bool in_memory() const { return std::string_view(GetParam()) == "memory"; }

  // The server starts (again).
  RecoveryStore::Restart Start(Duration lease = kLease) {
    if (in_memory()) {
      if (!store_) store_ = std::make_unique<MemoryRecoveryStore>();
    } else {
      store_.reset();
      auto opened = OpenRecoveryStore((path_ / "clients.sqlite").string());
      EXPECT_TRUE(opened);
      store_ = *std::move(opened);
    }
    const auto restart = store_->Begin(lease, kNow);
    EXPECT_TRUE(restart);
    return *restart;
  }

  std::filesystem::path path_;
  std::unique_ptr<RecoveryStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, RecoveryTest, testing::Values("memory", "sqlite"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(RecoveryTest, KnowsNobodyAtFirst) {
  const auto restart = Start();
  EXPECT_THAT(restart.clients, IsEmpty());
  EXPECT_EQ(restart.last_lease, Duration::zero());
}

TEST_P(RecoveryTest, InstancesGrowEvenWhereTheClockDoesNot) {
  const uint32_t first = Start().instance;
  EXPECT_GE(first, 1'700'000'000u);
  EXPECT_GT(Start().instance, first);
}

TEST_P(RecoveryTest, RemembersTheLastLease) {
  Start(std::chrono::seconds(30));
  EXPECT_EQ(Start(kLease).last_lease, std::chrono::seconds(30));
  EXPECT_EQ(Start().last_lease, kLease);
}

TEST_P(RecoveryTest, RemembersWhoHadSomething) {
  Start();
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_TRUE(store_->Record(kTwo));
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryTest, ForgetsWhoeverHasNothingAnyMore) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  EXPECT_TRUE(store_->Remove(kOne.owner));
  EXPECT_TRUE(store_->Remove("1unknown"));
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

// RFC 8881 §8.4.3, the second edge condition.
TEST_P(RecoveryTest, WhoeverDidNotComeWithinGraceMayNotReclaimLater) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_TRUE(store_->EndGrace());
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

TEST_P(RecoveryTest, ARestartWithinGraceForgetsNobody) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryTest, ThePrincipalIsThatOfTheLastTime) {
  Start();
  store_->Record(kOne);
  RecoveryRecord other = kOne;
  other.principal.uid = 7;
  store_->Record(other);
  EXPECT_THAT(Start().clients, ElementsAre(other));
}

TEST_P(RecoveryTest, AnInitiatorIsKeptByItsName) {
  const RecoveryRecord machine{
      OwnerKey(1, "machine"),
      {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = std::string("\x04\x01\0\x0b", 4) + "nfs/client@EXAMPLE.ORG"}};
  Start();
  store_->Record(machine);
  EXPECT_THAT(Start().clients, ElementsAre(machine));
}

// As it was made before there were initiators; and by what comes after us.
class OtherLayoutTest : public testing::Test {
 protected:
  OtherLayoutTest() {
    std::string name = testing::TempDir() + "/layout.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    directory_ = name;
  }
  ~OtherLayoutTest() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return (directory_ / "clients.sqlite").string(); }
  void Execute(const char* sql) {
    std::string message;
    ASSERT_TRUE(Database::Open(path(), message)->Execute(sql)) << message;
  }

 private:
  std::filesystem::path directory_;
};

TEST_F(OtherLayoutTest, ClientsOfAnEarlierLayoutAreKept) {
  Execute(
      "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), instance INTEGER NOT NULL, lease INTEGER NOT NULL);"
      "CREATE TABLE clients (owner BLOB PRIMARY KEY, flavor INTEGER NOT NULL, uid INTEGER NOT NULL,"
      "                      instance INTEGER NOT NULL) WITHOUT ROWID;"
      "INSERT INTO run VALUES (1, 5, 90000000000); INSERT INTO clients VALUES (x'31616263', 1, 1000, 5);");
  const RecoveryRecord known{OwnerKey(1, "abc"), {rpc::AuthFlavor::AUTH_SYS, 1000}};
  for (int run = 0; run < 2; ++run) {
    auto opened = OpenRecoveryStore(path());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_THAT((*opened)->Begin(kLease, kNow)->clients, ElementsAre(known));
  }
}

TEST_F(OtherLayoutTest, OneThatIsNotKnownIsLeftAlone) {
  Execute("PRAGMA user_version = 99;");
  const auto opened = OpenRecoveryStore(path());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("another version"));
}

TEST(OpenRecoveryStore, SaysWhyItCannot) {
  const auto opened = OpenRecoveryStore("/nonexistent/clients.sqlite");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("/nonexistent/clients.sqlite"));
}

// ---- the queue ----

class ListedStore : public MemoryRecoveryStore {
 public:
  explicit ListedStore(std::vector<std::string>& log) : log_(log) {}
  bool Record(const RecoveryRecord& client) override {
    log_.push_back("record " + client.owner);
    return client.owner != "bad";
  }
  bool Remove(const std::string& owner) override {
    log_.push_back("remove " + owner);
    return true;
  }

 private:
  std::vector<std::string>& log_;
};

TEST(RecoveryQueue, WritesInTheOrderInWhichItWasAsked) {
  std::vector<std::string> log;
  Loop loop;
  bool done = false;
  {
    RecoveryQueue queue(std::make_unique<ListedStore>(log));
    Spawn([](Loop& on, RecoveryQueue& to, bool& end) -> Task<void> {
      to.RemoveLater(&on, "a");
      const RecoveryRecord good{"a", {}}, bad{"bad", {}};
      const std::string other = "b";
      EXPECT_TRUE(co_await to.Record(&on, good));
      EXPECT_TRUE(co_await to.Remove(&on, other));
      EXPECT_FALSE(co_await to.Record(&on, bad));
      to.RemoveLater(&on, "c");
      end = true;
      on.Stop();
    }(loop, queue, done));
    loop.Run();
  }
  EXPECT_TRUE(done);
  EXPECT_THAT(log, ElementsAre("remove a", "record a", "remove b", "record bad", "remove c"));
}

TEST(RecoveryQueue, WritesAtOnceWhereThereIsNoLoop) {
  std::vector<std::string> log;
  RecoveryQueue queue(std::make_unique<ListedStore>(log));
  bool written = false;
  const RecoveryRecord record{"a", {}};
  Spawn([](RecoveryQueue& to, const RecoveryRecord& what, bool& out) -> Task<void> {
    out = co_await to.Record(nullptr, what);
  }(queue, record, written));
  EXPECT_TRUE(written);
  EXPECT_THAT(log, ElementsAre("record a"));
}

}  // namespace
}  // namespace penstock::nfs::v4
