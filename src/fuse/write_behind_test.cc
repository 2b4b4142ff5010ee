#include "fuse/write_behind.h"

#include <gmock/gmock.h>

#include <random>

#include "base/test_loop.h"
#include "fuse/test_file.h"

namespace penstock::fuse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Call = TestFile::Call;

constexpr uint32_t kLargest = 256 << 10;

class WriteBehindTest : public LoopFixture {
 public:
  ~WriteBehindTest() override {
    file->fails = 0;
    file->LetGo();
    Finish(writes->Settle());
  }

  client::Result<void> Write(uint64_t offset, std::string_view text) {
    const BufferRef copy = Copy(text);
    return Told(Finish(writes->Write(file, offset, copy, Last(text), told)), told);
  }
  client::Result<void> Commit(FailuresTold& of) { return Told(Finish(writes->Commit(of)), of); }
  // A program hears of the failure.
  client::Result<void> Told(client::Result<void> result, FailuresTold& of) {
    if (!result) writes->HandleTold(of);
    return result;
  }
  BufferRef Copy(std::string_view text) {
    last_ = loop.buffers().Allocate(text.size());
    CopyBytes(last_->bytes(), AsBytes(text));
    return last_;
  }
  Bytes Last(std::string_view text) { return last_->bytes().first(text.size()); }
  // What a program reads: the server's octets under those that are on their way.
  std::string Read(uint64_t offset, size_t size) {
    std::string octets(size, '?');
    const size_t from = std::min<size_t>(offset, file->data.size());
    const size_t count = std::min(size, file->data.size() - from);
    std::ranges::copy(std::string_view(file->data).substr(from, count), octets.begin());
    const Bytes into = std::as_writable_bytes(std::span(octets));
    octets.resize(writes->Overlay({}, offset, into, count));
    return octets;
  }

  WriteMemory memory{1 << 20};
  std::shared_ptr<TestFile> file = std::make_shared<TestFile>(loop);
  std::shared_ptr<WriteBehind> writes = std::make_shared<WriteBehind>(loop, memory, kLargest, [this] { ++losses; });
  FailuresTold told = 0;
  int losses = 0;

 private:
  BufferRef last_;
};

TEST_F(WriteBehindTest, SmallWritesInOrderBecomeOne) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Write(100 * static_cast<uint64_t>(i), std::string(100, char('a' + i))));
  EXPECT_THAT(file->writes, IsEmpty());
  ASSERT_TRUE(Commit(told));
  EXPECT_THAT(file->writes, ElementsAre(Call{0, 1000}));
  EXPECT_EQ(file->stable.substr(95, 10), "aaaaabbbbb");
  EXPECT_TRUE(writes->clean());
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(WriteBehindTest, ASingleWriteNeedsNoCommit) {
  ASSERT_TRUE(Write(0, "some"));
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->commits, 0);
  EXPECT_EQ(file->stable, "some");

  file->obeys = false;
  ASSERT_TRUE(Write(4, "more"));
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->commits, 1) << "the server has not stored it";
  EXPECT_EQ(file->stable, "somemore");

  ASSERT_TRUE(Write(0, "two"));
  ASSERT_TRUE(Write(100, "ranges"));
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->commits, 2);
}

// The server has stored the second write at once, and loses the first one.
TEST_F(WriteBehindTest, DataThatAreWrittenAgainHideNoStableData) {
  ASSERT_TRUE(Write(0, "first"));
  Finish(writes->Send());
  file->stores_more = [] { return true; };
  ASSERT_TRUE(Write(2, "second"));
  Finish(writes->Send());
  file->stores_more = nullptr;
  file->Restart();
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->stable, "fisecond");
}

TEST_F(WriteBehindTest, AProgramReadsWhatItHasWrittenBefore) {
  file->data = "0123456789";
  ASSERT_TRUE(Write(2, "ab"));
  ASSERT_TRUE(Write(12, "cd"));
  EXPECT_EQ(Read(0, 20), std::string("01ab456789\0\0cd", 14));
  EXPECT_EQ(Read(3, 4), "b456");
  EXPECT_EQ(writes->unsent_end(), 14u);
  Finish(writes->Send());
  EXPECT_EQ(writes->unsent_end(), 0u);
  EXPECT_EQ(file->data, std::string("01ab456789\0\0cd", 14));
}

// The READ was executed before the WRITE, and its reply comes after COMMIT.
TEST_F(WriteBehindTest, ALateReplyToAReadHidesNoWrite) {
  file->data = "old";
  ASSERT_TRUE(Write(0, "new"));
  const WriteBehind::Ranges before = writes->Within(0, 3);
  ASSERT_TRUE(Commit(told));
  std::string octets = "old";
  EXPECT_EQ(writes->Overlay(before, 0, std::as_writable_bytes(std::span(octets)), 3), 3u);
  EXPECT_EQ(octets, "new");
}

TEST_F(WriteBehindTest, WritesThatOverlapReachTheServerInTheirOrder) {
  const std::string large(kLargest, 'a');
  ASSERT_TRUE(Write(0, large));
  ASSERT_TRUE(Write(10, std::string(kLargest, 'b')));
  ASSERT_TRUE(Write(5, "ccc"));
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->stable.substr(0, 12), "aaaaacccaabb");
}

TEST_F(WriteBehindTest, AWriteThatGrowsOverAnEarlierOneFollowsIt) {
  ASSERT_TRUE(Write(100, "early"));
  ASSERT_TRUE(Write(0, std::string(100, 'x')));
  ASSERT_TRUE(Write(100, std::string((64 << 10) - 100, 'y'))) << "fills the second range";
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->stable.substr(95, 10), "xxxxxyyyyy");
}

TEST_F(WriteBehindTest, AServerThatRestartsGetsTheDataAgain) {
  ASSERT_TRUE(Write(0, "first"));
  Finish(writes->Send());
  file->Restart();
  ASSERT_TRUE(Write(2, "second"));
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->stable, "fisecond");
  EXPECT_EQ(file->commits, 2);
}

// The second write has reached the server that has restarted, and must not be replaced by the first one.
TEST_F(WriteBehindTest, DataThatAreWrittenAgainHideNoNewerData) {
  ASSERT_TRUE(Write(0, "first"));
  Finish(writes->Send());
  file->Restart();
  ASSERT_TRUE(Write(0, "other"));
  Finish(writes->Send());
  ASSERT_TRUE(Commit(told));
  EXPECT_EQ(file->stable, "other");
}

TEST_F(WriteBehindTest, AFailureIsToldOnce) {
  ASSERT_TRUE(Write(0, "lost"));
  file->fails = ENOSPC;
  const auto committed = Commit(told);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().number, ENOSPC);
  file->fails = 0;
  EXPECT_TRUE(Commit(told));
  EXPECT_TRUE(Write(0, "kept"));
  EXPECT_TRUE(Commit(told));
  EXPECT_EQ(file->stable, "kept");
}

// A child that inherits a file closes it when it ends, and ignores what close() returns.
TEST_F(WriteBehindTest, EachOpenFileIsToldOfAFailure) {
  FailuresTold others = writes->failures();
  ASSERT_TRUE(Write(0, "lost"));
  file->fails = EIO;
  Finish(writes->Settle());
  file->fails = 0;
  EXPECT_EQ(losses, 1);
  EXPECT_FALSE(writes->Failure(told));
  writes->HandleTold();
  EXPECT_FALSE(writes->Failure(told)) << "the next descriptor of the open file that is closed tells it as well";
  EXPECT_FALSE(Commit(told));
  EXPECT_TRUE(writes->Failure(told));
  EXPECT_FALSE(Commit(others));
  EXPECT_TRUE(Commit(others));
  FailuresTold later = writes->failures();
  EXPECT_TRUE(Commit(later)) << "opened after programs have been told";
}

TEST_F(WriteBehindTest, AFailureThatNobodyWasToldIsToldToTheNextWhoOpensTheFile) {
  ASSERT_TRUE(Write(0, "lost"));
  file->fails = EIO;
  Finish(writes->Settle());
  file->fails = 0;
  FailuresTold later = writes->failures();
  EXPECT_FALSE(Commit(later));
  EXPECT_FALSE(Commit(told));
}

TEST_F(WriteBehindTest, AFailureThatAKilledProgramDidNotHearIsToldToTheNextWhoOpensTheFile) {
  ASSERT_TRUE(Write(0, "lost"));
  file->fails = EIO;
  EXPECT_FALSE(Finish(writes->Commit(told)));
  FailuresTold later = writes->failures();
  EXPECT_FALSE(Commit(later));
  FailuresTold last = writes->failures();
  EXPECT_TRUE(Commit(last));
  EXPECT_FALSE(Write(0, "refused")) << "the open file of the killed program";
  // Later failures count as well.
  ASSERT_TRUE(Write(0, "lost"));
  EXPECT_FALSE(Commit(told));
}

// Nothing may keep the file, which is closed next.
TEST_F(WriteBehindTest, DataThatTheServerLosesAgainAndAgainAreLost) {
  file->restarts_before_commit = true;
  ASSERT_TRUE(Write(0, "first"));
  ASSERT_TRUE(Write(100, "second"));
  const auto committed = Commit(told);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().number, EIO);
  EXPECT_TRUE(writes->clean());
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_EQ(file.use_count(), 1);
  EXPECT_EQ(losses, 1);
  file->restarts_before_commit = false;
  ASSERT_TRUE(Write(0, "third"));
  EXPECT_TRUE(Commit(told));
  EXPECT_EQ(file->stable, "third");
}

TEST_F(WriteBehindTest, AFailureIsToldByTheNextWrite) {
  ASSERT_TRUE(Write(0, "lost"));
  file->fails = EDQUOT;
  Finish(writes->Send());
  file->fails = 0;
  const auto refused = Write(4, "more");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().number, EDQUOT);
  EXPECT_TRUE(Commit(told));
}

TEST_F(WriteBehindTest, AFailedCommitIsAFailure) {
  ASSERT_TRUE(Write(0, "data"));
  Finish(writes->Send());
  file->fails = EIO;
  EXPECT_FALSE(Commit(told));
  EXPECT_TRUE(writes->clean());
}

TEST_F(WriteBehindTest, AWriteWaitsForMemoryThatOtherWritesHave) {
  const std::string large(kLargest, 'x');
  file->holds_replies = true;
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(Write(i * kLargest, large));
  bool done = false;
  Spawn([](WriteBehindTest& test, const std::string& text, bool& out) -> Task<void> {
    const BufferRef copy = test.Copy(text);
    (void)co_await test.writes->Write(test.file, 4 * kLargest, copy, test.Last(text), test.told);
    out = true;
  }(*this, large, done));
  TurnFor(loop, std::chrono::milliseconds(20));
  EXPECT_FALSE(done);
  // Another file without data does not wait.
  FailuresTold others_told = 0;
  const auto other = std::make_shared<WriteBehind>(loop, memory, kLargest, [] {});
  const BufferRef copy = Copy("y");
  ASSERT_TRUE(Finish(other->Write(file, 0, copy, Last("y"), others_told)));
  file->LetGo();
  EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  EXPECT_TRUE(Finish(other->Commit(others_told)));
  EXPECT_TRUE(Commit(told));
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(WriteBehindTest, RandomWritesAndRestartsLoseNothing) {
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return random() % limit; };
  file->stores_more = [&] { return below(4) == 0; };
  std::string expected;
  size_t offset = 0;
  for (int i = 0; i < 2000; ++i) {
    // Some writes continue the one before.
    if (below(3) != 0) offset = below(300'000);
    const std::string text(1 + below(i % 10 == 0 ? 200'000 : 5'000), static_cast<char>('a' + below(26)));
    expected.resize(std::max(expected.size(), offset + text.size()));
    expected.replace(offset, text.size(), text);
    ASSERT_TRUE(Write(offset, text));
    offset += text.size();
    if (below(50) == 0) file->Restart();
    if (below(40) == 0) ASSERT_TRUE(Commit(told));
  }
  ASSERT_TRUE(Commit(told));
  EXPECT_TRUE(file->stable == expected);
}

}  // namespace
}  // namespace penstock::fuse
