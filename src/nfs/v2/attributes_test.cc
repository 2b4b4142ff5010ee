// GETATTR, SETATTR, STATFS.
#include "nfs/v2/convert.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class AttributesTest : public NfsTest {
 protected:
  nfsstat Set(const fhandle& file, const sattr& values) { return Call<NFSPROC_SETATTR>({file, values}).status(); }
};

TEST_F(AttributesTest, ReturnsTheAttributesOfAFile) {
  const fattr got = AttributesOf(MakeFile("file", "hello", 0640));
  EXPECT_EQ(got.type, NFREG);
  EXPECT_EQ(got.mode, 0100640u);
  EXPECT_EQ(got.nlink, 1u);
  EXPECT_EQ(got.size, 5u);
  EXPECT_EQ(got.rdev, UINT32_MAX);
  EXPECT_EQ(got.mtime.useconds, 0u);  // the clock gives five nanoseconds
  EXPECT_GT(got.mtime.seconds, 1'000'000u);
}

// RFC 1094 §2.3.5: the type is also in the mode.
TEST_F(AttributesTest, EachTypeHasItsBitsInTheMode) {
  const fattr directory = AttributesOf(MakeDirectory("directory", 0750));
  EXPECT_EQ(directory.type, NFDIR);
  EXPECT_EQ(directory.mode, 0040750u);
  ASSERT_EQ(MakeSymlink("link", "target"), NFS_OK);
  const auto link = Lookup("link");
  EXPECT_EQ(link.ok().attributes.type, NFLNK);
  EXPECT_EQ(link.ok().attributes.mode & 0170000, 0120000u);
}

TEST_F(AttributesTest, ASizeOf32BitsIsTheLargest) {
  EXPECT_EQ(AttributesOf(MakeLargeFile("largest", UINT32_MAX)).size, UINT32_MAX);
  const fhandle larger = MakeLargeFile("larger", uint64_t{1} << 32);
  EXPECT_EQ(Call<NFSPROC_GETATTR>(larger).status(), NFSERR_FBIG);
  EXPECT_EQ(Lookup("larger").status(), NFSERR_FBIG);
  EXPECT_EQ(Call<NFSPROC_READ>({larger, 0, 10, 0}).status(), NFSERR_FBIG);
}

TEST_F(AttributesTest, SetsWhatHasAValue) {
  const fhandle file = MakeFile("file", "hello");
  const fattr before = AttributesOf(file);
  EXPECT_EQ(Set(file, Unset()), NFS_OK);
  fattr unchanged = AttributesOf(file);
  unchanged.ctime = before.ctime;
  EXPECT_EQ(unchanged, before);
  sattr values = Unset();
  values.mode = 0600;
  values.uid = 7;
  values.gid = 8;
  values.size = 2;
  values.atime = {11, 12};
  values.mtime = {13, 999'999};
  const auto set = Call<NFSPROC_SETATTR>({file, values});
  ASSERT_EQ(set.status(), NFS_OK);
  const fattr after = set.attributes();
  EXPECT_EQ(after, AttributesOf(file));
  EXPECT_EQ(after.mode, 0100600u);
  EXPECT_EQ(after.uid, 7u);
  EXPECT_EQ(after.gid, 8u);
  EXPECT_EQ(after.size, 2u);
  EXPECT_EQ(after.atime, (nfstime{11, 12}));
  EXPECT_EQ(after.mtime, (nfstime{13, 999'999}));
}

// The bits of the type do not change a file into something else.
TEST_F(AttributesTest, IgnoresTheTypeInAMode) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ(Set(file, Mode(0040711)), NFS_OK);
  EXPECT_EQ(AttributesOf(file).mode, 0100711u);
  EXPECT_EQ(Set(file, Mode(0xffff)), NFS_OK);  // sixteen bits: not set
  EXPECT_EQ(AttributesOf(file).mode, 0100711u);
}

TEST_F(AttributesTest, AMillionMicrosecondsAskForTheServersTime) {
  const fhandle file = MakeFile("file");
  sattr values = Unset();
  values.atime = {5, 0};
  values.mtime = {5, 0};
  ASSERT_EQ(Set(file, values), NFS_OK);
  values.mtime = {5, 1'000'000};
  ASSERT_EQ(Set(file, values), NFS_OK);
  const fattr both = AttributesOf(file);
  EXPECT_EQ(both.mtime, both.ctime);
  EXPECT_EQ(both.atime, both.ctime);
  values = Unset();
  values.atime = {5, 0};
  ASSERT_EQ(Set(file, values), NFS_OK);
  values.atime = {5, 1'000'000};
  ASSERT_EQ(Set(file, values), NFS_OK);
  EXPECT_EQ(AttributesOf(file).atime, AttributesOf(file).ctime);
  EXPECT_EQ(AttributesOf(file).mtime, both.mtime);
}

TEST_F(AttributesTest, OnlyTheServersTimeIsFreeForAUserWhoMayWrite) {
  const fhandle file = MakeFile("file", "", 0666);
  memory.SetUser(1000);
  sattr values = Unset();
  values.atime = values.mtime = {5, 1'000'000};
  EXPECT_EQ(Set(file, values), NFS_OK);
  values.atime = values.mtime = {5, 0};
  EXPECT_EQ(Set(file, values), NFSERR_PERM);
}

TEST_F(AttributesTest, RejectsMoreThanAMillionMicroseconds) {
  const fhandle file = MakeFile("file");
  sattr values = Unset();
  values.mtime = {5, 1'000'001};
  EXPECT_EQ(Set(file, values), NFSERR_IO);
  EXPECT_NE(AttributesOf(file).mtime.seconds, 5u);
}

TEST_F(AttributesTest, AFileThatIsTooLargeIsNotChangedUnlessItBecomesSmaller) {
  const fhandle file = MakeLargeFile("larger", uint64_t{1} << 32);
  EXPECT_EQ(Set(file, Mode(0600)), NFSERR_FBIG);
  EXPECT_EQ(Set(file, Size(10)), NFS_OK);
  EXPECT_EQ(AttributesOf(file).mode, 0100644u);
  EXPECT_EQ(AttributesOf(file).size, 10u);
}

TEST_F(AttributesTest, RequiresOwnership) {
  const fhandle file = MakeFile("file");
  memory.SetUser(1000);
  EXPECT_EQ(Set(file, Mode(0777)), NFSERR_PERM);
}

TEST_F(AttributesTest, RejectsABadHandle) {
  EXPECT_EQ(Call<NFSPROC_GETATTR>(StaleHandle()).status(), NFSERR_STALE);
  EXPECT_EQ(Set(StaleHandle(), Mode(0777)), NFSERR_STALE);
  EXPECT_EQ(Call<NFSPROC_STATFS>(fhandle{}).status(), NFSERR_STALE);
  fhandle padded = root;
  padded.back() = std::byte{1};  // the padding must be zero
  EXPECT_EQ(Call<NFSPROC_GETATTR>(padded).status(), NFSERR_STALE);
  EXPECT_EQ(Call<NFSPROC_GETATTR>(root).status(), NFS_OK);
}

TEST_F(AttributesTest, RejectsSettingAttributesOfAReadOnlyExport) {
  memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  EXPECT_EQ(Set(RootOf("/ro"), Mode(0777)), NFSERR_ROFS);
}

TEST_F(AttributesTest, StatfsCountsBlocks) {
  const auto status = Call<NFSPROC_STATFS>(root);
  ASSERT_EQ(status.status(), NFS_OK);
  EXPECT_EQ(status.info().tsize, 8192u);
  const auto space = Now(tree->GetSpace(root_context, tree->Root()));
  EXPECT_EQ(uint64_t{status.info().blocks} * status.info().bsize,
            space.result->total_bytes / status.info().bsize * status.info().bsize);
  EXPECT_GT(status.info().bavail, 0u);
}

TEST(Convert, BlocksGrowWithTheFileSystem) {
  EXPECT_EQ(ToSpace({.total_bytes = 1 << 20, .free_bytes = 8192, .available_bytes = 4096}),
            (statfsok{.tsize = 8192, .bsize = 4096, .blocks = 256, .bfree = 2, .bavail = 1}));
  const uint64_t exabyte = uint64_t{1} << 60;
  const statfsok large = ToSpace({.total_bytes = exabyte, .free_bytes = exabyte / 2, .available_bytes = exabyte / 4});
  EXPECT_LE(large.blocks, uint32_t{INT32_MAX});
  EXPECT_EQ(uint64_t{large.blocks} * large.bsize, exabyte);
  EXPECT_EQ(uint64_t{large.bfree} * large.bsize, exabyte / 2);
  const statfsok largest = ToSpace({.total_bytes = UINT64_MAX, .free_bytes = UINT64_MAX, .available_bytes = 0});
  EXPECT_EQ(largest.blocks, UINT32_MAX);
}

TEST(Convert, EachErrorHasAStatusOfVersion2) {
  for (int error = 0; error <= static_cast<int>(fs::Error::kXattrTooBig); ++error) {
    EXPECT_NE(ToStatus(static_cast<fs::Error>(error)), NFS_OK) << error;
  }
  EXPECT_EQ(ToStatus(fs::Error::kBadHandle), NFSERR_STALE);
  EXPECT_EQ(ToStatus(fs::Error::kXDev), NFSERR_IO);
  EXPECT_EQ(ToStatus(fs::Error::kFileTooBig), NFSERR_FBIG);
}

TEST(Convert, ClampsTimesToTheirRange) {
  fs::Attributes attributes;
  attributes.atime = {.seconds = -1, .nanoseconds = 0};
  attributes.mtime = {.seconds = int64_t{1} << 40, .nanoseconds = 999'999'999};
  const auto converted = ToAttributes(attributes);
  EXPECT_EQ(converted->atime, (nfstime{0, 0}));
  EXPECT_EQ(converted->mtime, (nfstime{UINT32_MAX, 999'999}));
}

TEST(Convert, FoldsNumbersOf64Bits) {
  fs::Attributes attributes;
  attributes.fileid = 0xffff'ffff;
  attributes.fsid = 0x0000'0001'0000'0002;
  attributes.used = 513;
  const auto converted = ToAttributes(attributes);
  EXPECT_EQ(converted->fileid, 0xffff'ffffu);
  EXPECT_EQ(converted->fsid, 3u);
  EXPECT_EQ(converted->blocks, 2u);
}

// The size of a directory or of a symbolic link is not the length of data, and may be any number.
TEST(Convert, OnlyAFileCanBeTooLarge) {
  fs::Attributes attributes;
  attributes.size = uint64_t{1} << 32;
  EXPECT_EQ(ToAttributes(attributes).error(), fs::Error::kFileTooBig);
  attributes.type = fs::FileType::kDirectory;
  EXPECT_EQ(ToAttributes(attributes)->size, UINT32_MAX);
}

}  // namespace
}  // namespace penstock::nfs::v2
