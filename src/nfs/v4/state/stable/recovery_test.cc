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

#include "base/test_temporary_directory.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/recovery_suite.h"

namespace penstock::nfs::v4::suite {
namespace {

class MemoryRecoveryHome : public RecoveryHome {
 public:
  std::shared_ptr<RecoveryStore> Open() override { return store_; }

 private:
  const std::shared_ptr<RecoveryStore> store_ = std::make_shared<MemoryRecoveryStore>();
};

class SqliteRecoveryHome : public RecoveryHome {
 public:
  std::shared_ptr<RecoveryStore> Open() override {
    auto opened = OpenRecoveryStore(std::string(directory_.path()) + "/clients.sqlite");
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }

 private:
  const TemporaryDirectory directory_;
};

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

PENSTOCK_RECOVERY_STORE_SUITE(
    Stores, testing::Values(RecoveryParameter{"memory", [] { return std::make_unique<MemoryRecoveryHome>(); }},
                            RecoveryParameter{"sqlite", [] { return std::make_unique<SqliteRecoveryHome>(); }}));

}  // namespace penstock::nfs::v4::suite
