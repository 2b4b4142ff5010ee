// Tests both recovery stores with one suite, the layout of the database, and the queue.
#include "nfs/v4/state/stable/recovery.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/stable/recovery_queue.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::chrono::seconds kLease{90};
const std::chrono::sys_seconds kNow{std::chrono::seconds(1'700'000'000)};

const RecoveryRecord kOne{OwnerKey(DialectOf(1), std::string_view("o\0ne", 4)), {rpc::AuthFlavor::AUTH_SYS, 0}};
const RecoveryRecord kTwo{OwnerKey(DialectOf(0), "two"), {rpc::AuthFlavor::AUTH_NONE, 4'000'000'000}};

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

  // Starts or restarts the server.
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

TEST_P(RecoveryTest, HasNoClientsAtFirst) {
  const auto restart = Start();
  EXPECT_THAT(restart.clients, IsEmpty());
  EXPECT_EQ(restart.last_lease, Duration::zero());
}

TEST_P(RecoveryTest, InstancesGrowEvenIfTheClockDoesNotAdvance) {
  const uint32_t first = Start().instance;
  EXPECT_GE(first, 1'700'000'000u);
  EXPECT_GT(Start().instance, first);
}

TEST_P(RecoveryTest, RemembersTheLastLease) {
  Start(std::chrono::seconds(30));
  EXPECT_EQ(Start(kLease).last_lease, std::chrono::seconds(30));
  EXPECT_EQ(Start().last_lease, kLease);
}

TEST_P(RecoveryTest, RemembersRecordedClients) {
  Start();
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_TRUE(store_->Record(kTwo));
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryTest, ForgetsRemovedClients) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  EXPECT_TRUE(store_->Remove(kOne.owner));
  EXPECT_TRUE(store_->Remove("1unknown"));
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

// RFC 8881 §8.4.3, the second edge condition.
TEST_P(RecoveryTest, EndGraceForgetsClientsThatDidNotReturn) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_TRUE(store_->EndGrace());
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

TEST_P(RecoveryTest, RestartDuringGraceForgetsNoClient) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryTest, NewRecordReplacesThePrincipal) {
  Start();
  store_->Record(kOne);
  RecoveryRecord other = kOne;
  other.principal.uid = 7;
  store_->Record(other);
  EXPECT_THAT(Start().clients, ElementsAre(other));
}

TEST_P(RecoveryTest, RecordsTheNameOfAnInitiator) {
  const RecoveryRecord machine{
      OwnerKey(DialectOf(1), "machine"),
      {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = std::string("\x04\x01\0\x0b", 4) + "nfs/client@EXAMPLE.ORG"}};
  Start();
  store_->Record(machine);
  EXPECT_THAT(Start().clients, ElementsAre(machine));
}

// Tests databases that an earlier or a later version wrote, foreign databases, and damaged ones. The earlier version
// had no names of initiators.
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
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  std::string Refusal() {
    const auto opened = OpenRecoveryStore(path());
    if (!opened) return opened.error().message;
    const auto begun = (*opened)->Begin(kLease, kNow);
    return begun ? "" : begun.error().message;
  }
  void Make() {
    const auto opened = OpenRecoveryStore(path());
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_TRUE((*opened)->Begin(kLease, kNow));
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE((*opened)->Record({OwnerKey(DialectOf(1), fmt::format("client {}", i)), {}}));
  }

 private:
  std::filesystem::path directory_;
};

TEST_F(OtherLayoutTest, KeepsTheClientsOfAnEarlierLayout) {
  Execute(
      "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), instance INTEGER NOT NULL, lease INTEGER NOT NULL);"
      "CREATE TABLE clients (owner BLOB PRIMARY KEY, flavor INTEGER NOT NULL, uid INTEGER NOT NULL,"
      "                      instance INTEGER NOT NULL) WITHOUT ROWID;"
      "INSERT INTO run VALUES (1, 5, 90000000000); INSERT INTO clients VALUES (x'31616263', 1, 1000, 5);");
  const RecoveryRecord known{OwnerKey(DialectOf(1), "abc"), {rpc::AuthFlavor::AUTH_SYS, 1000}};
  for (int run = 0; run < 2; ++run) {
    auto opened = OpenRecoveryStore(path());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_THAT((*opened)->Begin(kLease, kNow)->clients, ElementsAre(known));
  }
}

TEST_F(OtherLayoutTest, RefusesALaterLayout) {
  Make();
  Execute("PRAGMA user_version = 99;");
  EXPECT_THAT(Refusal(), testing::AllOf(testing::HasSubstr(path()), testing::HasSubstr("another version"),
                                        testing::HasSubstr("move it away")));
  Execute("PRAGMA user_version = 1;");
  EXPECT_EQ(Refusal(), "");
}

MATCHER_P(IsDamaged, path, "") {
  *result_listener << arg;
  return arg.starts_with(path + " is damaged (") && arg.contains("move it away") && arg.contains("cannot reclaim");
}

TEST_F(OtherLayoutTest, RefusesADamagedFile) {
  std::ofstream(path()) << "";
  EXPECT_THAT(Refusal(), IsDamaged(path()));
  std::ofstream(path()) << "this is no database at all, however long it may be";
  EXPECT_THAT(Refusal(), IsDamaged(path()));
  std::ofstream(path()) << std::string(8192, '\0');
  EXPECT_THAT(Refusal(), IsDamaged(path()));
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(Refusal(), IsDamaged(path()));
}

TEST_F(OtherLayoutTest, RefusesATruncatedFile) {
  Make();
  const auto size = std::filesystem::file_size(path());
  ASSERT_GT(size, 20'000u);
  for (const auto left : {size - 4096, size / 2, uintmax_t{4096}, uintmax_t{1000}}) {
    std::filesystem::resize_file(path(), left);
    EXPECT_THAT(Refusal(), IsDamaged(path())) << left;
  }
}

TEST_F(OtherLayoutTest, RefusesAGarbledPage) {
  Make();
  std::fstream(path(), std::ios::binary | std::ios::in | std::ios::out).seekp(8192) << std::string(4096, 'x');
  EXPECT_THAT(Refusal(), IsDamaged(path()));
}

TEST_F(OtherLayoutTest, RefusesAnotherProgramsDatabase) {
  Execute("CREATE TABLE bookmarks (name TEXT);");
  EXPECT_THAT(Refusal(), IsDamaged(path()));
  Execute(
      "DROP TABLE bookmarks; CREATE TABLE run (id INTEGER); CREATE TABLE clients (owner BLOB, name BLOB);"
      "PRAGMA user_version = 1;");
  EXPECT_THAT(Refusal(), IsDamaged(path()));
}

// A lease of years would mean a grace period of years. The highest instance cannot grow, so the next run would repeat
// an instance.
TEST_F(OtherLayoutTest, RefusesAnInvalidLeaseOrInstance) {
  Make();
  for (const char* const set :
       {"lease = 9000000000000000000", "lease = -1", "instance = 4294967295", "instance = -1"}) {
    Execute(fmt::format("UPDATE run SET instance = 5, lease = 1; UPDATE run SET {}", set).c_str());
    EXPECT_THAT(Refusal(), IsDamaged(path())) << set;
  }
}

TEST_F(OtherLayoutTest, GivesOtherUsersNoAccess) {
  const mode_t mask = ::umask(0);
  Make();
  const auto opened = OpenRecoveryStore(path());
  ::umask(mask);
  ASSERT_TRUE(opened);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path()).parent_path())) {
    EXPECT_EQ(entry.status().permissions() & ~std::filesystem::perms::owner_all, std::filesystem::perms::none)
        << entry.path();
  }
}

TEST(OpenRecoveryStore, ErrorNamesThePath) {
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

TEST(RecoveryQueue, WritesInTheOrderOfTheCalls) {
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

TEST(RecoveryQueue, WritesAtOnceWithoutALoop) {
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
