#include "client/nfs3/lock_records.h"

#include <gmock/gmock.h>

#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::client::v3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LockRecord RecordOf(int32_t owner, std::string_view file) {
  const ConstBytes octets = AsBytes(file);
  return {owner, {octets.begin(), octets.end()}};
}

class LockRecordsTest : public testing::Test {
 protected:
  ~LockRecordsTest() override { std::filesystem::remove_all(folder_); }

  std::vector<LockRecord> LeftAt(std::string_view server) const {
    std::vector<LockRecord> records;
    for (const LeftLocks& each : FindLeftLocks(path_, server)) {
      records.insert(records.end(), each.records.begin(), each.records.end());
    }
    return records;
  }
  LockRecords& Begin(std::string client = "host.1") {
    records_.emplace(path_, "server:2049", std::move(client));
    return *records_;
  }

  static std::filesystem::path MakeFolder() {
    std::string name = testing::TempDir() + "/lock-records-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
  }

  const std::filesystem::path folder_ = MakeFolder();
  const std::filesystem::path path_ = folder_ / "locks";
  std::optional<LockRecords> records_;
};

TEST_F(LockRecordsTest, FindsTheRecordsOfADeadMount) {
  LockRecords& records = Begin();
  ASSERT_TRUE(records.Add(RecordOf(-7, "one")));
  ASSERT_TRUE(records.Add(RecordOf(8, std::string("\0\xff\n", 3))));
  ASSERT_TRUE(records.Add(RecordOf(9, "three")));
  ASSERT_TRUE(records.Remove(RecordOf(9, "three")));
  EXPECT_THAT(LeftAt("server:2049"), IsEmpty()) << "the mount lives";
  records_.reset();
  EXPECT_THAT(LeftAt("server:2050"), IsEmpty());
  EXPECT_THAT(LeftAt("server:2049"), ElementsAre(RecordOf(-7, "one"), RecordOf(8, std::string("\0\xff\n", 3))));
}

TEST_F(LockRecordsTest, AreTakenByOneProcessAndForgotten) {
  ASSERT_TRUE(Begin().Add(RecordOf(1, "file")));
  records_.reset();
  {
    const auto left = FindLeftLocks(path_, "server:2049");
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].client, "host.1");
    EXPECT_THAT(LeftAt("server:2049"), IsEmpty());
    left[0].Forget();
  }
  EXPECT_THAT(LeftAt("server:2049"), IsEmpty());
}

TEST_F(LockRecordsTest, LeaveNoFileWithoutLocks) {
  LockRecords& records = Begin();
  ASSERT_TRUE(records.Add(RecordOf(1, "file")));
  EXPECT_FALSE(std::filesystem::is_empty(path_));
  ASSERT_TRUE(records.Remove(RecordOf(1, "file")));
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  ASSERT_TRUE(records.Add(RecordOf(2, "file")));
  records_.reset();
  EXPECT_THAT(LeftAt("server:2049"), ElementsAre(RecordOf(2, "file")));
}

TEST_F(LockRecordsTest, DoNotFillTheDisk) {
  LockRecords& records = Begin();
  ASSERT_TRUE(records.Add(RecordOf(0, "stays")));
  for (int32_t owner = 1; owner < 10'000; ++owner) {
    ASSERT_TRUE(records.Add(RecordOf(owner, "file")));
    ASSERT_TRUE(records.Remove(RecordOf(owner, "file")));
  }
  EXPECT_LT(std::filesystem::file_size(path_ / "host.1"), 64u << 10);
  records_.reset();
  EXPECT_THAT(LeftAt("server:2049"), ElementsAre(RecordOf(0, "stays")));
}

// While it exists, files cannot become longer, as on a full disk: the last write takes only a part.
class FullDisk {
 public:
  explicit FullDisk(rlim_t most) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = most, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_{};
};

TEST_F(LockRecordsTest, SurviveADiskThatIsFullForAWhile) {
  LockRecords& records = Begin();
  ASSERT_TRUE(records.Add(RecordOf(1, "one")));
  ASSERT_TRUE(records.Add(RecordOf(2, "two")));
  {
    const FullDisk full(std::filesystem::file_size(path_ / "host.1") + 5);
    EXPECT_FALSE(records.Add(RecordOf(3, "three")));
    EXPECT_FALSE(records.Add(RecordOf(4, "four")));
    std::filesystem::copy_file(path_ / "host.1", path_ / "host.2");
    EXPECT_THAT(LeftAt("server:2049"), ElementsAre(RecordOf(1, "one"), RecordOf(2, "two"))) << "that of host.2";
    std::filesystem::remove(path_ / "host.2");
  }
  ASSERT_TRUE(records.Add(RecordOf(5, "five")));
  ASSERT_TRUE(records.Remove(RecordOf(2, "two")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1) << "nothing else is left behind";
  records_.reset();
  EXPECT_THAT(LeftAt("server:2049"),
              ElementsAre(RecordOf(1, "one"), RecordOf(3, "three"), RecordOf(4, "four"), RecordOf(5, "five")));
}

TEST_F(LockRecordsTest, TellWhyTheyCannotBeWritten) {
  std::ofstream(path_).put('x');
  const auto added = Begin().Add(RecordOf(1, "file"));
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, testing::HasSubstr(path_.string()));
}

TEST(ParseLockRecords, IgnoresALineWithoutItsEnd) {
  EXPECT_THAT(*ParseLockRecords("penstock-locks 1 s:1\n+ 5 00ff\n+ 6 0", "s:1"),
              ElementsAre(RecordOf(5, std::string("\0\xff", 2))));
}

TEST(ParseLockRecords, RejectsWhatThisProgramDoesNotWrite) {
  for (const char* const content :
       {"", "penstock-locks 2 s:1\n", "penstock-locks 1 s:1", "penstock-locks 1 s:1\n* 5 00\n",
        "penstock-locks 1 s:1\n+ x 00\n", "penstock-locks 1 s:1\n+ 5\n", "penstock-locks 1 s:1\n+ 5 0\n",
        "penstock-locks 1 s:1\n+ 5 0g\n", "penstock-locks 1 s:1\n+ 5000000000 00\n", "penstock-locks 1 s:1\n\n"}) {
    EXPECT_FALSE(ParseLockRecords(content, "s:1")) << content;
  }
}

}  // namespace
}  // namespace penstock::client::v3
