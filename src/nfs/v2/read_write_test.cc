// READ, WRITE.
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class ReadWriteTest : public NfsTest {};

TEST_F(ReadWriteTest, ReadsARange) {
  const fhandle file = MakeFile("file", "hello world");
  const auto read = Call<NFSPROC_READ>({file, 6, 3, 12345});
  ASSERT_EQ(read.status(), NFS_OK);
  EXPECT_EQ(read.ok().data.text(), "wor");
  EXPECT_EQ(read.ok().attributes, AttributesOf(file));
  EXPECT_EQ((Call<NFSPROC_READ>({file, 6, 100, 0}).ok().data.text()), "world");
  EXPECT_EQ((Call<NFSPROC_READ>({file, 11, 100, 0}).ok().data.text()), "");
  EXPECT_EQ((Call<NFSPROC_READ>({file, UINT32_MAX, UINT32_MAX, 0}).ok().data.text()), "");
}

// RFC 1094 §3.5
TEST_F(ReadWriteTest, TransfersAtMost8192Octets) {
  const std::string text(NFS_MAXDATA, 'a');
  const fhandle file = MakeFile("file", text);
  ASSERT_EQ(Write(file, text, NFS_MAXDATA), NFS_OK);
  EXPECT_EQ((Call<NFSPROC_READ>({file, 0, 20'000, 0}).ok().data.size()), NFS_MAXDATA);
  EXPECT_EQ((Call<NFSPROC_READ>({file, NFS_MAXDATA - 1, NFS_MAXDATA, 0}).ok().data.size()), NFS_MAXDATA);
}

TEST_F(ReadWriteTest, WriteReturnsTheAttributesAfterwards) {
  const fhandle file = MakeFile("file", "hello");
  const auto written =
      Call<NFSPROC_WRITE>({file, 99, 3, 77, xdr::Payload<NFS_MAXDATA>::Borrowed(std::string_view("p me"))});
  ASSERT_EQ(written.status(), NFS_OK);
  EXPECT_EQ(written.attributes(), AttributesOf(file));
  EXPECT_EQ(written.attributes().size, 7u);
  EXPECT_EQ(ReadAll(file), "help me");
  EXPECT_EQ(Write(file, "", 100), NFS_OK);
  EXPECT_EQ(AttributesOf(file).size, 7u);
}

TEST_F(ReadWriteTest, AFileMayGrowToTheLargestSize) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ(Write(file, "x", UINT32_MAX - 1), NFS_OK);
  EXPECT_EQ(AttributesOf(file).size, UINT32_MAX);
  EXPECT_EQ(Write(file, "x", UINT32_MAX), NFSERR_FBIG);
  EXPECT_EQ(Write(file, "xy", UINT32_MAX - 1), NFSERR_FBIG);
  EXPECT_EQ(AttributesOf(file).size, UINT32_MAX);
}

// The reply to a WRITE has the size, which version 2 cannot express: so nothing is written.
TEST_F(ReadWriteTest, AFileThatIsTooLargeIsNotWrittenTo) {
  const fhandle file = MakeLargeFile("larger", uint64_t{1} << 32);
  EXPECT_EQ(Write(file, "text"), NFSERR_FBIG);
  const auto node = Now(tree->Lookup(root_context, tree->Root(), "larger"));
  const auto read = Now(tree->Read(root_context, node.result->handle, 0, 4));
  EXPECT_EQ(AsText(read.result->data.bytes()), std::string_view("\0\0\0\0", 4));
}

TEST_F(ReadWriteTest, DataIsStableBeforeTheReply) {
  struct Recorder final : fs::faulty::FileSystem {
    using FileSystem::FileSystem;
    Task<fs::Changed<fs::WriteReply>> Write(const fs::RequestContext& context, const fs::Handle& file, uint64_t offset,
                                            const Data& data, fs::Stability stability) override {
      stabilities.push_back(stability);
      // Writes three octets at a time.
      const Data part = data.Sub(0, std::min<uint64_t>(3, data.size()));
      co_return co_await fs::faulty::FileSystem::Write(context, file, offset, part, stability);
    }
    std::vector<fs::Stability> stabilities;
  };
  const auto inner = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 99});
  const auto recorder = std::make_shared<Recorder>(inner);
  ASSERT_TRUE(memory.exports.Add("/recorded", recorder, {.squash = Squash::kNone}));
  const fhandle file = MakeFileIn(RootOf("/recorded"), "file", "hello");
  EXPECT_EQ(ReadAll(file), "hello");
  EXPECT_THAT(recorder->stabilities, testing::ElementsAre(fs::Stability::kFileSync, fs::Stability::kFileSync));
}

TEST_F(ReadWriteTest, ReportsErrors) {
  const fhandle directory = MakeDirectory("directory");
  EXPECT_EQ((Call<NFSPROC_READ>({directory, 0, 10, 0}).status()), NFSERR_ISDIR);
  EXPECT_EQ(Write(directory, "text"), NFSERR_ISDIR);
  EXPECT_EQ((Call<NFSPROC_READ>({StaleHandle(), 0, 10, 0}).status()), NFSERR_STALE);
  EXPECT_EQ(Write(StaleHandle(), "text"), NFSERR_STALE);
  const fhandle file = MakeFile("file", "secret", 0600);
  memory.SetUser(1000);
  EXPECT_EQ((Call<NFSPROC_READ>({file, 0, 10, 0}).status()), NFSERR_ACCES);
  EXPECT_EQ(Write(file, "text"), NFSERR_ACCES);
}

TEST_F(ReadWriteTest, RejectsAWriteToAReadOnlyExport) {
  fs::memory::FileSystem& served = memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  Now(served.Create(root_context, served.Root(), "file", {}));
  const fhandle file = Call<NFSPROC_LOOKUP>({RootOf("/ro"), "file"}).ok().file;
  EXPECT_EQ(Write(file, "text"), NFSERR_ROFS);
}

}  // namespace
}  // namespace penstock::nfs::v2
