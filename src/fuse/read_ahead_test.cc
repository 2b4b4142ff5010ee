#include "fuse/read_ahead.h"

#include <gmock/gmock.h>

#include "base/test_loop.h"
#include "fuse/test_file.h"

namespace penstock::fuse {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::Le;
using testing::Not;
using Call = TestFile::Call;

constexpr uint32_t kBlock = 1000;

class ReadAheadTest : public LoopFixture {
 public:
  ReadAheadTest() {
    for (int i = 0; i < 20'000; ++i) file->data += static_cast<char>('a' + i % 26);
  }
  ~ReadAheadTest() override { Finish(reader->Quiet()); }

  static std::string TextOf(std::span<const Slice> pieces) {
    std::string text;
    for (const Slice& each : pieces) text += AsText(each.bytes());
    return text;
  }
  client::Result<std::string> Read(uint64_t offset, size_t size, uint64_t known_size) {
    auto pieces = Finish(reader->Read(offset, size, known_size));
    if (!pieces) return std::unexpected(std::move(pieces).error());
    return TextOf(*pieces);
  }
  client::Result<std::string> Read(uint64_t offset, size_t size) { return Read(offset, size, file->data.size()); }

  std::shared_ptr<TestFile> file = std::make_shared<TestFile>(loop);
  std::shared_ptr<ReadAhead> reader = std::make_shared<ReadAhead>(loop, file, kBlock, 4 * kBlock);
};

TEST_F(ReadAheadTest, AFileThatIsReadInOrderIsReadAhead) {
  for (uint64_t at = 0; at < 20'000; at += 250) EXPECT_EQ(Read(at, 250), file->data.substr(at, 250));
  EXPECT_EQ(file->reads.size(), 20u) << "each octet once";
  EXPECT_EQ(Read(20'000, 250), "");
}

TEST_F(ReadAheadTest, OctetsStayWhereTheTransportHasReceivedThem) {
  file->receive_buffer = kBlock;
  const auto pieces = *Finish(reader->Read(0, 2 * kBlock, file->data.size()));
  EXPECT_EQ(TextOf(pieces), file->data.substr(0, 2 * kBlock));
  for (const Slice& piece : pieces) EXPECT_THAT(file->received, Contains(piece.owner()));
}

TEST_F(ReadAheadTest, FewOctetsDoNotKeepALargeBufferOfTheTransport) {
  file->receive_buffer = 16 * kBlock;
  const auto pieces = *Finish(reader->Read(0, 2 * kBlock, file->data.size()));
  EXPECT_EQ(TextOf(pieces), file->data.substr(0, 2 * kBlock));
  for (const Slice& piece : pieces) EXPECT_THAT(file->received, Not(Contains(piece.owner())));
}

TEST_F(ReadAheadTest, NothingIsReadBehindTheEnd) {
  file->data.resize(1500);
  EXPECT_EQ(Read(0, 4000), file->data);
  EXPECT_THAT(file->reads, ElementsAre(Call{0, 1000}, Call{1000, 500}, Call{1500, 2500}));
}

TEST_F(ReadAheadTest, JumpsReadWhatIsAskedFor) {
  const auto large = std::make_shared<TestFile>(loop);
  large->data.assign(64 << 20, 'x');
  const auto jumps = std::make_shared<ReadAhead>(loop, large, kBlock, 4 * kBlock);
  for (const uint64_t at : {50u << 20, 10u << 20, 30u << 20}) {
    EXPECT_EQ(TextOf(*Finish(jumps->Read(at, 100, large->data.size()))), std::string(100, 'x'));
  }
  EXPECT_THAT(large->reads, Each(Field(&Call::size, Le(100u))));
}

TEST_F(ReadAheadTest, OctetsThatChangeAreReadAgain) {
  EXPECT_EQ(Read(0, 500), file->data.substr(0, 500));
  Finish(reader->Quiet());
  file->data.replace(500, 3, "NEW");
  reader->Forget(500, 503);
  EXPECT_EQ(Read(500, 3), "NEW");
}

// The reply of a READ that was under way when the octets changed serves no later read.
TEST_F(ReadAheadTest, AReplyOfBeforeAChangeIsNotUsedAfterIt) {
  file->holds_replies = true;
  bool done = false;
  Spawn([](ReadAheadTest& test, bool& ended) -> Task<void> {
    (void)co_await test.reader->Read(0, 10, test.file->data.size());
    ended = true;
  }(*this, done));
  file->data.replace(0, 3, "NEW");
  reader->ForgetAll();
  file->LetGo();
  EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  EXPECT_EQ(Read(0, 3), "NEW");
}

TEST_F(ReadAheadTest, AFileThatIsShorterThanKnownEnds) {
  file->data.resize(700);
  EXPECT_EQ(Read(0, 5000, 20'000), file->data);
}

TEST_F(ReadAheadTest, AFileThatIsLongerThanKnownIsReadToItsEnd) {
  EXPECT_EQ(Read(0, 5000, 10), file->data.substr(0, 5000));
}

// The kernel takes a short reply for the end of the file.
TEST_F(ReadAheadTest, AFailureIsNoEnd) {
  EXPECT_TRUE(Read(0, 100));
  Finish(reader->Quiet());
  reader->ForgetAll();
  file->fails = EIO;
  const auto failed = Read(100, 5000);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().number, EIO);
  file->fails = 0;
  Finish(reader->Quiet());
  reader->ForgetAll();
  EXPECT_EQ(Read(100, 5000), file->data.substr(100, 5000));
}

}  // namespace
}  // namespace penstock::fuse
