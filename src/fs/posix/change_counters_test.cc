#include "fs/posix/change_counters.h"

#include <gtest/gtest.h>

#include "base/failing_disk.h"
#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {
namespace {

constexpr ChangeCounters::File kFile{1, 2};

class ChangeCountersTest : public testing::Test {
 protected:
  // Records a change after which the file has this ctime. Returns the change attribute after it.
  uint64_t Change(const Timestamp& ctime, std::optional<Timestamp> now = {}) {
    const uint64_t change = counters_.Look(kFile, ctime_);
    counters_.NoteChange(kFile, {.size = 0, .mtime = {}, .ctime = ctime_, .change = change}, ctime,
                         now.value_or(ctime));
    ctime_ = ctime;
    return counters_.Look(kFile, ctime_);
  }

  ChangeCounters counters_;
  Timestamp ctime_{1000, 0};
};

TEST_F(ChangeCountersTest, ReturnsTheCtimeIfItChangedWithTheFile) {
  EXPECT_EQ(counters_.Look(kFile, {1000, 7}), 1000'000'000'007u);
  EXPECT_EQ(Change({1000, 8}), 1000'000'000'008u);
  EXPECT_EQ(Change({1001, 0}), 1001'000'000'000u);
}

TEST_F(ChangeCountersTest, CountsChangesWithinATickOfTheClock) {
  uint64_t last = Change({1000, 0});
  for (int i = 0; i < 1000; ++i) {
    const uint64_t next = Change({1000, 0});
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(counters_.Look({1, 3}, {1000, 0}), 1000'000'000'000u) << "another file is not affected";
  EXPECT_GT(Change({1000, 4'000'000}), last) << "a later ctime is greater";
}

TEST_F(ChangeCountersTest, GrowsWhenTheClockIsSetBack) {
  uint64_t last = Change({1000, 0});
  for (const int64_t seconds : {900, 900, 800, 950}) {
    const uint64_t next = Change({seconds, 0});
    EXPECT_GT(next, last) << seconds;
    last = next;
  }
}

// Each export orders only its own changes to the file.
TEST_F(ChangeCountersTest, NeverReturnsAValueTwiceAfterChangesByTwoExports) {
  const PreAttributes before{.size = 0, .mtime = {}, .ctime = ctime_, .change = counters_.Look(kFile, ctime_)};
  counters_.NoteChange(kFile, before, ctime_, ctime_);
  const uint64_t one = counters_.Look(kFile, ctime_);
  counters_.NoteChange(kFile, before, ctime_, ctime_);
  EXPECT_GT(counters_.Look(kFile, ctime_), one);
}

TEST_F(ChangeCountersTest, DoesNotCountACallThatChangedNothing) {
  const uint64_t change = Change({1000, 0});
  EXPECT_EQ(Change({1000, 0}, Timestamp{1010, 0}), change) << "an empty write changes nothing";
}

TEST_F(ChangeCountersTest, KeepsABoundedNumberOfFiles) {
  for (uint64_t id = 10; id < 10 + 2 * ChangeCounters::kMaxFiles; ++id) {
    counters_.NoteChange({1, id}, {.size = 0, .mtime = {}, .ctime = {5, 0}, .change = 5'000'000'000}, {5, 0}, {5, 0});
  }
  size_t counted = 0;
  for (uint64_t id = 10; id < 10 + 2 * ChangeCounters::kMaxFiles; ++id) {
    if (counters_.Look({1, id}, {5, 0}) != 5'000'000'000) ++counted;
  }
  EXPECT_LE(counted, ChangeCounters::kMaxFiles);
  EXPECT_GT(counted, ChangeCounters::kMaxFiles / 2);
}

// --- A served directory under a kernel whose clock ticks once a second

class CoarseClockTest : public suite::FileSystemSuite {
 protected:
  CoarseClockTest() { FailingDisk::set_clock_tick(std::chrono::seconds(1)); }
  ~CoarseClockTest() override { FailingDisk::set_clock_tick({}); }

  // Checks that the call changes the object's change attribute and reports its values before and after.
  void ExpectChanges(const Handle& object, const std::function<WeakCacheData()>& act) {
    const uint64_t before = Stat(object).change;
    const WeakCacheData around = act();
    EXPECT_GT(Stat(object).change, before);
    EXPECT_EQ(around.before->change, before);
    EXPECT_EQ(around.after->change, Stat(object).change);
  }
};

TEST_P(CoarseClockTest, EveryChangeOfAFileChangesItsChangeAttribute) {
  const Handle file = Make(root_, "file");
  for (int i = 0; i < 5; ++i) {
    ExpectChanges(file, [&] { return Write(file, 0, "text").object; });
    NewAttributes values;
    values.mode = 0600 + i;
    ExpectChanges(file, [&] { return Set(file, values).object; });
    values = {};
    values.size = i;
    ExpectChanges(file, [&] { return Set(file, values).object; });
  }
  const uint64_t before = Stat(file).change;
  CreateHow how;
  how.attributes.size = 0;
  const auto truncated = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(truncated.result && truncated.result->existed);
  EXPECT_GT(truncated.result->attributes.change, before);
  EXPECT_EQ(Stat(file).change, truncated.result->attributes.change);
}

TEST_P(CoarseClockTest, EveryChangeOfADirectoryChangesItsChangeAttribute) {
  const Handle directory = MakeDirectory(root_, "directory");
  const Handle file = Make(root_, "file");
  const Handle other = MakeDirectory(root_, "other");
  for (int i = 0; i < 5; ++i) {
    ExpectChanges(directory, [&] { return Await(fs().Create(caller_, directory, "new", {})).object; });
    ExpectChanges(directory, [&] { return Link(file, directory, "link").directory; });
    ExpectChanges(directory, [&] { return Rename(directory, "new", other, "moved").from; });
    ExpectChanges(other, [&] { return Rename(directory, "link", other, "moved").to; });
    ExpectChanges(other, [&] { return Remove(other, "moved").object; });
  }
}

TEST_P(CoarseClockTest, ChangeAttributeChangesWhenAFileGetsOrLosesAName) {
  const Handle file = Make(root_, "file");
  uint64_t last = Stat(file).change;
  const auto expect_more = [&](const char* what) {
    const uint64_t now = Stat(file).change;
    EXPECT_GT(now, last) << what;
    last = now;
  };
  ASSERT_TRUE(Link(file, root_, "second").result);
  expect_more("LINK");
  ASSERT_TRUE(Link(file, root_, "third").result);
  Make(root_, "over");
  ASSERT_TRUE(Rename(root_, "over", root_, "second").result);
  expect_more("RENAME over one of its names");
  ASSERT_TRUE(Remove(root_, "third").result);
  expect_more("REMOVE of one of its names");
}

TEST_P(CoarseClockTest, FailedAndEmptyCallsDoNotChangeTheChangeAttribute) {
  const Handle file = Make(root_, "file");
  Make(root_, "new");
  const auto changes = [&] { return std::pair(Stat(root_).change, Stat(file).change); };
  EXPECT_FALSE(Remove(root_, "absent").result);
  // All times appear to be years old.
  FailingDisk::set_clock_tick(std::chrono::system_clock::now().time_since_epoch() * 2 / 3);
  const auto before = changes();
  CreateHow how;
  how.mode = CreateMode::kGuarded;
  EXPECT_FALSE(Await(fs().Create(caller_, root_, "new", how)).result);
  EXPECT_FALSE(Remove(root_, "absent").result);
  ASSERT_TRUE(Write(file, 0, "").result);
  EXPECT_EQ(changes(), before);
}

suite::Parameter On(std::string name, const char* where) {
  return {std::move(name), [where] { return std::make_unique<PosixBackend>(where, With(HandleMethod::kBest)); }};
}

INSTANTIATE_TEST_SUITE_P(Posix, CoarseClockTest, testing::Values(On("Disk", kDisk), On("Memory", kMemory)),
                         suite::NameOf);

}  // namespace
}  // namespace penstock::fs::posix
