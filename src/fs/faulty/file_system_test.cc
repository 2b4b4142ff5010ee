#include "fs/faulty/file_system.h"

#include <fmt/format.h>

#include <cassert>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/test_loop.h"
#include "fs/faulty/process.h"
#include "fs/file_system_suite.h"
#include "fs/memory/file_system.h"

namespace penstock::fs::faulty {
namespace {

using std::chrono::seconds;
using suite::ErrorOf;
using suite::TextOf;
using testing::ElementsAre;

// Timers that a test fires one by one.
class ManualTimers : public TimerService {
 public:
  TimePoint Now() const override { return now_; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override {
    return std::make_unique<ManualTimer>(*this, std::move(on_expiry));
  }
  // Advances the time to the next timer and fires it.
  void FireNext() {
    ASSERT_FALSE(due_.empty());
    const auto next = due_.begin();
    now_ = next->first;
    const std::function<void()> fire = next->second->on_expiry();
    due_.erase(next);
    fire();
  }
  size_t pending() const { return due_.size(); }

 private:
  class ManualTimer : public Timer {
   public:
    ManualTimer(ManualTimers& timers, std::function<void()> on_expiry)
        : timers_(timers), on_expiry_(std::move(on_expiry)) {}
    ~ManualTimer() override { Cancel(); }
    void ExpireAfter(Duration delay) override {
      Cancel();
      timers_.due_.emplace(timers_.now_ + delay, this);
    }
    void Cancel() override {
      std::erase_if(timers_.due_, [this](const auto& each) { return each.second == this; });
    }
    const std::function<void()>& on_expiry() const { return on_expiry_; }

   private:
    ManualTimers& timers_;
    const std::function<void()> on_expiry_;
  };

  TimePoint now_{};
  std::multimap<TimePoint, ManualTimer*> due_;
};

std::shared_ptr<memory::FileSystem> MakeMemory() {
  return std::make_shared<memory::FileSystem>(memory::Options{.root_mode = 0777});
}

class FaultyBackend : public suite::Backend {
 public:
  explicit FaultyBackend(const std::vector<Fault>& faults) : files_(MakeMemory(), faults, {.timers = &timers_}) {}
  fs::FileSystem& fs() override { return files_; }
  void RunOnce() override { timers_.FireNext(); }
  void RunSome() override {
    if (timers_.pending() > 0) timers_.FireNext();
  }

 private:
  ManualTimers timers_;
  FileSystem files_;
};

const suite::Parameter kFaultless{"Faultless", [] { return std::make_unique<FaultyBackend>(std::vector<Fault>{}); }};
const suite::Parameter kSlow{
    "Slow", [] {
      return std::make_unique<FaultyBackend>(std::vector<Fault>{
          {.effect = Slow(seconds(1))},
          {.effect = {.kind = Effect::Kind::kSlow, .moment = Effect::Moment::kAfter, .delay = seconds(1)}}});
    }};

struct Fixture {
  Fixture() {
    file_ = Make("file");
    EXPECT_TRUE(Do(memory_->Write(root_, file_, 0, Text("0123456789"), Stability::kFileSync)).result);
    EXPECT_TRUE(Do(memory_->MakeDirectory(root_, memory_->Root(), "directory", {})).result);
  }

  Handle Make(std::string_view name) { return Do(memory_->Create(root_, memory_->Root(), name, {})).result->handle; }
  static Data Text(std::string_view text) { return Data(Slice::Borrowed(AsBytes(text))); }
  // Runs a task that does not wait.
  template <class T>
  static T Do(Task<T> task) {
    const auto result = Start(std::move(task));
    assert(*result);
    return std::move(**result);
  }
  // Begins a task. The result has no value while the task waits.
  template <class T>
  static std::shared_ptr<std::optional<T>> Start(Task<T> task) {
    auto result = std::make_shared<std::optional<T>>();
    Spawn([](Task<T> inner, std::shared_ptr<std::optional<T>> to) -> Task<> { to->emplace(co_await std::move(inner)); }(
                                                                      std::move(task), result));
    return result;
  }

  std::optional<Error> ReadError() { return ErrorOf(Do(files_.Read(root_, file_, 0, 10)).result); }
  std::string Contents(const Handle& file) { return TextOf(Do(memory_->Read(root_, file, 0, 100)).result->data); }

  const RequestContext root_{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  ManualTimers timers_;
  std::mt19937_64 random_;
  std::vector<std::string> killed_at_;  // the contents of the file at each call of the hook
  std::shared_ptr<memory::FileSystem> memory_ = MakeMemory();
  Handle file_;
  FileSystem files_{memory_,
                    {},
                    {.timers = &timers_,
                     .random = [this] { return random_(); },
                     .kill = [this] { killed_at_.push_back(Contents(file_)); }}};
};

class FaultyTest : public testing::Test, protected Fixture {};

TEST_F(FaultyTest, FailsAnOperationWithoutCarryingItOut) {
  files_.Add({.operation = Operation::kWrite, .effect = FailWith(Error::kNoSpace)});
  EXPECT_EQ(ErrorOf(Do(files_.Write(root_, file_, 0, Text("abc"), Stability::kUnstable)).result), Error::kNoSpace);
  EXPECT_EQ(Contents(file_), "0123456789");
  EXPECT_FALSE(ReadError()) << "reads do not fail";
}

TEST_F(FaultyTest, FailsAnOperationAfterCarryingItOut) {
  files_.Add({.operation = Operation::kWrite, .effect = FailWith(Error::kIo, Effect::Moment::kAfter)});
  const auto wrote = Do(files_.Write(root_, file_, 0, Text("abc"), Stability::kUnstable));
  EXPECT_EQ(ErrorOf(wrote.result), Error::kIo);
  EXPECT_TRUE(wrote.object.before && wrote.object.after);
  EXPECT_EQ(Contents(file_), "abc3456789");
}

TEST_F(FaultyTest, FailsEveryOperationIfTheFaultNamesNone) {
  files_.Add({.effect = FailWith(Error::kStale)});
  EXPECT_EQ(ReadError(), Error::kStale);
  EXPECT_EQ(ErrorOf(Do(files_.GetAttributes(root_, file_))), Error::kStale);
}

TEST_F(FaultyTest, FailsTheNthCallOnly) {
  files_.Add({.operation = Operation::kRead, .when = Nth(2)});
  EXPECT_TRUE(Do(files_.GetAttributes(root_, file_))) << "calls of other operations do not count";
  std::vector<bool> failed;
  for (int i = 0; i < 4; ++i) failed.push_back(ReadError().has_value());
  EXPECT_THAT(failed, ElementsAre(false, true, false, false));
}

TEST_F(FaultyTest, FailsEachNthCall) {
  files_.Add({.operation = Operation::kRead, .when = {.kind = When::Kind::kEachNth, .n = 2}});
  std::vector<bool> failed;
  for (int i = 0; i < 4; ++i) failed.push_back(ReadError().has_value());
  EXPECT_THAT(failed, ElementsAre(false, true, false, true));
}

TEST_F(FaultyTest, FailsAtRandomWithTheGivenProbability) {
  files_.Add({.operation = Operation::kRead, .when = AtRandom(0.25)});
  int failures = 0;
  for (int i = 0; i < 1000; ++i) failures += ReadError() ? 1 : 0;
  EXPECT_NEAR(failures, 250, 60);
}

TEST_F(FaultyTest, FailsCallsThatNameTheObjectOfTheFault) {
  const Handle other = Make("other");
  files_.Add({.object = other});
  EXPECT_FALSE(ReadError());
  EXPECT_EQ(ErrorOf(Do(files_.Read(root_, other, 0, 10)).result), Error::kIo);
  EXPECT_EQ(ErrorOf(Do(files_.Copy(root_, file_, 0, other, 0, 10)).result), Error::kIo) << "as the target";
  EXPECT_EQ(ErrorOf(Do(files_.Link(root_, other, memory_->Root(), "link")).result), Error::kIo);
}

TEST_F(FaultyTest, FirstErrorWins) {
  files_.Add({.effect = FailWith(Error::kQuota)});
  files_.Add({.effect = FailWith(Error::kIo)});
  EXPECT_EQ(ReadError(), Error::kQuota);
}

TEST_F(FaultyTest, ClearRemovesAllFaults) {
  files_.Add({});
  files_.Clear();
  EXPECT_FALSE(ReadError());
}

TEST_F(FaultyTest, ShortReadDoesNotReportTheEndOfTheFile) {
  files_.Add({.operation = Operation::kRead, .effect = Short(4)});
  const auto read = Do(files_.Read(root_, file_, 3, 100));
  ASSERT_TRUE(read.result);
  EXPECT_EQ(TextOf(read.result->data), "3456");
  EXPECT_FALSE(read.result->eof);
  EXPECT_TRUE(Do(files_.Read(root_, file_, 8, 100)).result->eof) << "the fault does not shorten this read";
}

TEST_F(FaultyTest, ShortWriteReportsTheNumberOfWrittenOctets) {
  files_.Add({.operation = Operation::kWrite, .effect = Short(2)});
  const auto wrote = Do(files_.Write(root_, file_, 0, Text("abcd"), Stability::kUnstable));
  ASSERT_TRUE(wrote.result);
  EXPECT_EQ(wrote.result->count, 2u);
  EXPECT_EQ(Contents(file_), "ab23456789");
}

TEST_F(FaultyTest, ShortCopyReportsTheNumberOfCopiedOctets) {
  files_.Add({.operation = Operation::kCopy, .effect = Short(3)});
  const Handle to = Make("to");
  EXPECT_EQ(Do(files_.Copy(root_, file_, 0, to, 0, 10)).result->count, 3u);
  EXPECT_EQ(Contents(to), "012");
}

TEST_F(FaultyTest, UnreadableDataCannotBeLoaded) {
  files_.Add({.operation = Operation::kRead, .effect = Unreadable()});
  const auto read = Do(files_.Read(root_, file_, 0, 10));
  ASSERT_TRUE(read.result);
  std::string text(read.result->data.size(), '\0');
  EXPECT_FALSE(read.result->data.CopyTo(std::as_writable_bytes(std::span(text))));
}

TEST_F(FaultyTest, DelaysAnOperationBeforeAndAfterIt) {
  files_.Add({.operation = Operation::kWrite, .effect = Slow(seconds(2))});
  Effect after = Slow(seconds(3));
  after.moment = Effect::Moment::kAfter;
  files_.Add({.operation = Operation::kWrite, .effect = after});
  const Data data = Text("abc");
  const TimePoint begun = timers_.Now();
  const auto wrote = Start(files_.Write(root_, file_, 0, data, Stability::kUnstable));
  EXPECT_EQ(Contents(file_), "0123456789");
  timers_.FireNext();
  EXPECT_EQ(timers_.Now() - begun, seconds(2));
  EXPECT_EQ(Contents(file_), "abc3456789");
  EXPECT_FALSE(*wrote);
  timers_.FireNext();
  EXPECT_EQ(timers_.Now() - begun, seconds(5));
  ASSERT_TRUE(*wrote);
  EXPECT_TRUE((*wrote)->result);
}

TEST_F(FaultyTest, RandomDelaysStayWithinTheGivenLimit) {
  files_.Add({.operation = Operation::kRead, .effect = SlowUpTo(seconds(2), Effect::Moment::kBefore)});
  for (int i = 0; i < 100; ++i) {
    const TimePoint begun = timers_.Now();
    const auto read = Start(files_.Read(root_, file_, 0, 10));
    timers_.FireNext();
    EXPECT_TRUE(*read);
    EXPECT_LE(timers_.Now() - begun, seconds(2));
  }
}

TEST_F(FaultyTest, HangsUntilReleased) {
  files_.Add({.operation = Operation::kRead, .effect = Hang()});
  const auto read = Start(files_.Read(root_, file_, 0, 10));
  EXPECT_EQ(files_.waiting(), 1u);
  EXPECT_EQ(timers_.pending(), 0u);
  EXPECT_FALSE(*read);
  files_.Release();
  ASSERT_TRUE(*read);
  EXPECT_EQ(TextOf((*read)->result->data), "0123456789");
  EXPECT_EQ(files_.waiting(), 0u);
}

TEST_F(FaultyTest, WaitsOnTheLoopOfTheCall) {
  Loop loop;
  const RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}, .loop = &loop};
  files_.Add({.operation = Operation::kRead, .effect = Slow(std::chrono::milliseconds(1))});
  const auto slow = Start(files_.Read(context, file_, 0, 10));
  EXPECT_FALSE(*slow);
  EXPECT_TRUE(TurnUntil(loop, [&] { return slow->has_value(); }));
  files_.Add({.operation = Operation::kRead, .effect = Hang()});
  const auto hanging = Start(files_.Read(context, file_, 0, 10));
  std::thread([this] { files_.Release(); }).join();
  EXPECT_FALSE(*hanging) << "the call resumes on its loop, not on the thread that releases it";
  EXPECT_TRUE(TurnUntil(loop, [&] { return hanging->has_value(); }));
}

TEST_F(FaultyTest, DoesNotWaitAfterForbidWaiting) {
  files_.Add({.operation = Operation::kRead, .effect = Hang()});
  files_.Add({.operation = Operation::kRead, .effect = SlowUpTo(seconds(2), Effect::Moment::kAfter)});
  const auto read = Start(files_.Read(root_, file_, 0, 10));
  files_.ForbidWaiting();
  EXPECT_TRUE(*read);
  EXPECT_FALSE(ReadError());
  files_.AllowWaiting();
  const auto again = Start(files_.Read(root_, file_, 0, 10));
  EXPECT_EQ(files_.waiting(), 1u);
  files_.ForbidWaiting();
  EXPECT_TRUE(*again);
}

TEST_F(FaultyTest, KillsBetweenTheOperationAndItsReply) {
  files_.Add({.operation = Operation::kWrite, .when = Nth(1), .effect = Kill()});
  EXPECT_TRUE(Do(files_.Write(root_, file_, 0, Text("abc"), Stability::kUnstable)).result);
  EXPECT_THAT(killed_at_, ElementsAre("abc3456789"));
}

TEST_F(FaultyTest, GivesNoLeaseIfOpeningItFails) {
  files_.Add({.operation = Operation::kOpenLease, .effect = FailWith(Error::kDelay)});
  EXPECT_FALSE(Do(files_.OpenLease(root_, file_)).lease);
}

TEST_F(FaultyTest, WithFaultsReturnsTheGivenFileSystemForAnEmptyText) {
  EXPECT_EQ(*WithFaults(memory_, ""), memory_);
  EXPECT_FALSE(WithFaults(memory_, "nonsense"));
  const auto files = WithFaults(memory_, "any:eio%0.5");
  ASSERT_TRUE(files);
  size_t failures = 0;
  for (int i = 0; i < 100; ++i) failures += Do((*files)->GetAttributes(root_, file_)) ? 0 : 1;
  EXPECT_NEAR(static_cast<double>(failures), 50, 25);
}

// Each operation that changes something. It succeeds on the files that the fixture makes.
struct Change {
  Operation operation;
  std::function<std::optional<Error>(fs::FileSystem&)> run;
};

struct ChangeFixture : Fixture {
  std::vector<Change> Changes() {
    const Handle root = memory_->Root();
    return {
        {Operation::kSetAttributes,
         [=, this](auto& files) {
           NewAttributes values;
           values.size = 3;
           return ErrorOf(Do(files.SetAttributes(root_, file_, values, {})).result);
         }},
        {Operation::kWrite,
         [=, this](auto& files) {
           return ErrorOf(Do(files.Write(root_, file_, 8, Text("abcdef"), Stability::kUnstable)).result);
         }},
        {Operation::kCreate,
         [=, this](auto& files) { return ErrorOf(Do(files.Create(root_, root, "new", {})).result); }},
        {Operation::kMakeDirectory,
         [=, this](auto& files) { return ErrorOf(Do(files.MakeDirectory(root_, root, "new", {})).result); }},
        {Operation::kMakeSymlink,
         [=, this](auto& files) { return ErrorOf(Do(files.MakeSymlink(root_, root, "new", "target", {})).result); }},
        {Operation::kMakeNode,
         [=, this](auto& files) {
           return ErrorOf(Do(files.MakeNode(root_, root, "new", {.type = FileType::kFifo, .device = {}}, {})).result);
         }},
        {Operation::kRemove, [=, this](auto& files) { return ErrorOf(Do(files.Remove(root_, root, "file")).result); }},
        {Operation::kRemoveDirectory,
         [=, this](auto& files) { return ErrorOf(Do(files.RemoveDirectory(root_, root, "directory")).result); }},
        {Operation::kRename,
         [=, this](auto& files) { return ErrorOf(Do(files.Rename(root_, root, "file", root, "new")).result); }},
        {Operation::kLink,
         [=, this](auto& files) { return ErrorOf(Do(files.Link(root_, file_, root, "new")).result); }},
        {Operation::kAllocate,
         [=, this](auto& files) { return ErrorOf(Do(files.Allocate(root_, file_, 0, 20)).result); }},
        {Operation::kDeallocate,
         [=, this](auto& files) { return ErrorOf(Do(files.Deallocate(root_, file_, 2, 3)).result); }},
        {Operation::kCopy,
         [=, this](auto& files) { return ErrorOf(Do(files.Copy(root_, file_, 0, file_, 10, 10)).result); }},
        {Operation::kSetXattr,
         [=, this](auto& files) {
           return ErrorOf(Do(files.SetXattr(root_, file_, "name", AsBytes("value"), XattrMode::kEither)).result);
         }},
    };
  }

  // The state of the tree that a client can see, except times.
  std::map<std::string, std::string> Snapshot() {
    suite::Collector entries(1000);
    ReadDirectoryArguments arguments;
    arguments.with_nodes = true;
    EXPECT_TRUE(Do(memory_->ReadDirectory(root_, memory_->Root(), arguments, entries)).result);
    std::map<std::string, std::string> seen;
    for (const suite::Listed& entry : entries.entries) {
      const Attributes& has = *entry.attributes;
      std::string text = fmt::format("type {} mode {:o} links {} size {}", static_cast<int>(has.type), has.mode,
                                     has.nlink, has.type == FileType::kRegular ? has.size : 0);
      if (has.type == FileType::kRegular) text += " content " + Contents(*entry.handle);
      const auto xattrs = Do(memory_->ListXattrs(root_, *entry.handle));
      for (const std::string& name : *xattrs.result) text += " xattr " + name;
      seen[entry.name] = text;
    }
    return seen;
  }
};

class FaultyChangeTest : public testing::Test, protected ChangeFixture {};

TEST_F(FaultyChangeTest, FailureBeforeAnOperationLeavesTheFilesUnchanged) {
  for (const Change& change : Changes()) {
    files_.Add({.operation = change.operation, .effect = FailWith(Error::kNoSpace)});
    const auto before = Snapshot();
    EXPECT_EQ(change.run(files_), Error::kNoSpace);
    EXPECT_EQ(Snapshot(), before) << static_cast<int>(change.operation);
    files_.Clear();
  }
}

TEST_F(FaultyChangeTest, FailureAfterAnOperationLeavesTheSameFilesAsSuccess) {
  for (size_t i = 0; i < Changes().size(); ++i) {
    ChangeFixture failing, succeeding;
    const Change failed = failing.Changes()[i];
    failing.files_.Add({.operation = failed.operation, .effect = FailWith(Error::kIo, Effect::Moment::kAfter)});
    EXPECT_EQ(failed.run(failing.files_), Error::kIo);
    EXPECT_EQ(succeeding.Changes()[i].run(succeeding.files_), std::nullopt);
    EXPECT_EQ(failing.Snapshot(), succeeding.Snapshot()) << static_cast<int>(failed.operation);
    EXPECT_NE(failing.Snapshot(), Snapshot()) << "the operation changes something";
  }
}

TEST_F(FaultyChangeTest, OperationSucceedsWhenItIsRepeatedAfterATransientFailure) {
  for (size_t i = 0; i < Changes().size(); ++i) {
    ChangeFixture fixture;
    const Change change = fixture.Changes()[i];
    fixture.files_.Add({.operation = change.operation, .when = Nth(1), .effect = FailWith(Error::kDelay)});
    EXPECT_EQ(change.run(fixture.files_), Error::kDelay);
    EXPECT_EQ(change.run(fixture.files_), std::nullopt) << static_cast<int>(change.operation);
  }
}

}  // namespace
}  // namespace penstock::fs::faulty

PENSTOCK_FILE_SYSTEM_SUITE(Faulty, testing::Values(penstock::fs::faulty::kFaultless, penstock::fs::faulty::kSlow));
