#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using LookupTest = NfsTest;
using ReadLinkTest = NfsTest;

TEST_F(LookupTest, FindsAnObjectByItsName) {
  const nfs_fh3 file = MakeFile("file", "contents");
  const auto found = Call<NFSPROC3_LOOKUP>({{root, "file"}});
  ASSERT_EQ(found.status(), NFS3_OK);
  EXPECT_EQ(found.resok().object, file);
  EXPECT_EQ(found.resok().obj_attributes->size, 8u);
  EXPECT_EQ(found.resok().dir_attributes->type, NF3DIR);
}

TEST_F(LookupTest, FindsDotAndDotDot) {
  const nfs_fh3 directory = MakeDirectory("directory");
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{directory, "."}}).resok().object), directory);
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{directory, ".."}}).resok().object), root);
}

TEST_F(LookupTest, ParentOfTheRootIsTheRoot) {
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{root, ".."}}).resok().object), root);
}

TEST_F(LookupTest, DoesNotFollowSymbolicLinks) {
  MakeSymlink("link", "target");
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{root, "link"}}).resok().obj_attributes->type), NF3LNK);
}

TEST_F(LookupTest, ReturnsTheDirectorysAttributesForAMissingName) {
  const auto missing = Call<NFSPROC3_LOOKUP>({{root, "missing"}});
  EXPECT_EQ(missing.status(), NFS3ERR_NOENT);
  EXPECT_TRUE(missing.resfail().dir_attributes);
}

TEST_F(LookupTest, RejectsInvalidNames) {
  EXPECT_EQ(StatusOfLookup(""), NFS3ERR_ACCES);
  EXPECT_EQ(StatusOfLookup("a/b"), NFS3ERR_ACCES);
  EXPECT_EQ(StatusOfLookup("../.."), NFS3ERR_ACCES);
  EXPECT_EQ(StatusOfLookup(std::string_view("a\0b", 3)), NFS3ERR_ACCES);
  EXPECT_EQ(StatusOfLookup(std::string(256, 'x')), NFS3ERR_NAMETOOLONG);
  EXPECT_EQ(StatusOfLookup(std::string(255, 'x')), NFS3ERR_NOENT);
}

TEST_F(LookupTest, RejectsANonDirectory) {
  const auto in_file = Call<NFSPROC3_LOOKUP>({{MakeFile("file"), "name"}});
  EXPECT_EQ(in_file.status(), NFS3ERR_NOTDIR);
  EXPECT_EQ(in_file.resfail().dir_attributes->type, NF3REG);
  const auto stale = Call<NFSPROC3_LOOKUP>({{StaleHandle(), "name"}});
  EXPECT_EQ(stale.status(), NFS3ERR_STALE);
  EXPECT_FALSE(stale.resfail().dir_attributes);
}

TEST_F(LookupTest, RequiresSearchPermission) {
  const nfs_fh3 directory = MakeDirectory("private", 0700);
  MakeFileIn(directory, "file");
  memory.SetUser(1000);
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{directory, "file"}}).status()), NFS3ERR_ACCES);
}

TEST_F(ReadLinkTest, ReturnsThePath) {
  const auto read = Call<NFSPROC3_READLINK>({MakeSymlink("link", "some/target")});
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_EQ(read.resok().data.text(), "some/target");
  EXPECT_EQ(read.resok().symlink_attributes->type, NF3LNK);
}

TEST_F(ReadLinkTest, ReturnsThePathAsAPayload) {
  const nfs_fh3 link = MakeSymlink("link", "some/target");
  const Answer answer = memory.Ask(memory.EncodeCall<NFSPROC3_READLINK>({link}));
  ASSERT_EQ(answer.message.items.size(), 1u);
  EXPECT_EQ(AsText(answer.message.items[0].data.bytes()), "some/target");
  EXPECT_TRUE(answer.message.items[0].data.memory().owner());
}

TEST_F(ReadLinkTest, RejectsOtherTypesAsInvalid) {
  const auto of_file = Call<NFSPROC3_READLINK>({MakeFile("file")});
  EXPECT_EQ(of_file.status(), NFS3ERR_INVAL);
  EXPECT_EQ(of_file.resfail().symlink_attributes->type, NF3REG);
  EXPECT_EQ(Call<NFSPROC3_READLINK>({root}).status(), NFS3ERR_INVAL);
}

TEST_F(ReadLinkTest, RejectsABadHandle) {
  EXPECT_EQ(Call<NFSPROC3_READLINK>({StaleHandle()}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_READLINK>({NoHandle()}).status(), NFS3ERR_BADHANDLE);
}

}  // namespace
}  // namespace penstock::nfs::v3
