#include "nfs/acl/acl_test.h"

namespace penstock::nfs::acl {
namespace {

using SetAclTest = AclTest;
using testing::IsEmpty;

TEST_F(SetAclTest, SetsTheAccessListAndTheMode) {
  const nfs_fh3 file = MakeFile("file", "", 04755);
  const fattr3 before = AttributesOf(file);
  const auto set = Set(file, Lists(NA_ACL, shared_));
  ASSERT_EQ(set.status(), NFS3_OK);
  EXPECT_EQ(AccessOf(file), shared_);
  EXPECT_EQ(set.resok().attr->mode, 04640u) << "the group of the mode is the mask";
  EXPECT_NE(set.resok().attr->ctime, before.ctime);
  EXPECT_EQ(*set.resok().attr, AttributesOf(file));
}

TEST_F(SetAclTest, TheListDecidesAccess) {
  const nfs_fh3 file = MakeFile("file", "", 0600);
  const auto may_read = [&](uint32_t uid) {
    memory.SetUser(uid);
    return Call<NFSPROC3_ACCESS>({file, ACCESS3_READ}).resok().access == ACCESS3_READ &&
           Call<NFSPROC3_READ>({file, 0, 1}).status() == NFS3_OK;
  };
  EXPECT_FALSE(may_read(1003));
  memory.SetUser(0);
  ASSERT_EQ(SetAccess(file, shared_), NFS3_OK);
  EXPECT_TRUE(may_read(1003));
  EXPECT_FALSE(may_read(1004));
}

TEST_F(SetAclTest, AModeChangesTheMask) {
  const nfs_fh3 file = MakeFile("file");
  ASSERT_EQ(SetAccess(file, shared_), NFS3_OK);
  ASSERT_EQ(Call<NFSPROC3_SETATTR>({file, sattr3{.mode = 0604}, {}}).status(), NFS3_OK);
  Entries expected = shared_;
  expected[3].perm = 0;
  expected[4].perm = 4;
  EXPECT_EQ(AccessOf(file), expected);
}

TEST_F(SetAclTest, AListOfAModeReplacesALongerOne) {
  const nfs_fh3 file = MakeFile("file");
  ASSERT_EQ(SetAccess(file, shared_), NFS3_OK);
  ASSERT_EQ(SetAccess(file, OfMode(0751)), NFS3_OK);
  EXPECT_EQ(AccessOf(file), OfMode(0751));
  EXPECT_EQ(AttributesOf(file).mode, 0751u);
}

TEST_F(SetAclTest, NewFilesAndDirectoriesInheritTheDefaultList) {
  const nfs_fh3 directory = MakeDirectory("directory");
  ASSERT_EQ(SetDefaults(directory, AsDefaults(inherited_)), NFS3_OK);
  EXPECT_EQ(AccessOf(directory), OfMode(0755)) << "a list without its bit stays";
  EXPECT_EQ(DefaultsOf(directory), AsDefaults(inherited_));

  Entries expected = inherited_;
  expected[0].perm = 6;
  expected[3].perm = 4;  // the group of the mode limits the mask
  expected[4].perm = 0;
  EXPECT_EQ(AccessOf(MakeFileIn(directory, "file", "", 0640)), expected);
  const auto made = Call<NFSPROC3_MKDIR>({{directory, "inner"}, {.mode = 0777}});
  ASSERT_EQ(made.status(), NFS3_OK);
  EXPECT_EQ(AccessOf(*made.resok().obj), inherited_);
  EXPECT_EQ(DefaultsOf(*made.resok().obj), AsDefaults(inherited_));
}

TEST_F(SetAclTest, AnEmptyDefaultListRemovesTheDefaultList) {
  const nfs_fh3 directory = MakeDirectory("directory");
  ASSERT_EQ(SetDefaults(directory, AsDefaults(inherited_)), NFS3_OK);
  ASSERT_EQ(SetAccess(directory, shared_), NFS3_OK);
  EXPECT_EQ(DefaultsOf(directory), AsDefaults(inherited_)) << "a list without its bit stays";
  ASSERT_EQ(SetDefaults(directory, {}), NFS3_OK);
  EXPECT_THAT(DefaultsOf(directory), IsEmpty());
  EXPECT_EQ(AccessOf(directory), shared_);
  EXPECT_EQ(SetDefaults(directory, {}), NFS3_OK);
}

TEST_F(SetAclTest, OnlyDirectoriesHaveDefaultLists) {
  const nfs_fh3 file = MakeFile("file");
  EXPECT_EQ(SetDefaults(file, AsDefaults(inherited_)), NFS3ERR_INVAL);
  EXPECT_EQ(Set(file, Lists(NA_ACL | NA_DFACL, shared_)).status(), NFS3_OK);
}

TEST_F(SetAclTest, SymbolicLinksHaveNoLists) {
  EXPECT_EQ(SetAccess(MakeSymlink("link", "file"), shared_), NFS3ERR_NOTSUPP);
}

TEST_F(SetAclTest, OnlyTheOwnerSetsLists) {
  const nfs_fh3 file = MakeFile("file");
  memory.SetUser(1000);
  const auto set = Set(file, Lists(NA_ACL, shared_));
  EXPECT_EQ(set.status(), NFS3ERR_PERM);
  EXPECT_EQ(set.resfail().attr->mode, 0644u);
  EXPECT_EQ(AccessOf(file), OfMode(0644));
}

TEST_F(SetAclTest, RejectsMalformedListsAndUnknownParts) {
  const nfs_fh3 file = MakeFile("file");
  const auto set = Set(file, Lists(NA_ACL, {{NA_USER_OBJ, 0, 6}}));
  EXPECT_EQ(set.status(), NFS3ERR_INVAL);
  EXPECT_TRUE(set.resfail().attr);
  EXPECT_EQ(Set(file, Lists(NA_ACL | 0x10, shared_)).status(), NFS3ERR_INVAL);
  EXPECT_EQ(AccessOf(file), OfMode(0644));
}

TEST_F(SetAclTest, RejectsABadHandle) {
  EXPECT_EQ(SetAccess(StaleHandle(), shared_), NFS3ERR_STALE);
  EXPECT_EQ(SetAccess(NoHandle(), shared_), NFS3ERR_BADHANDLE);
}

TEST_F(SetAclTest, ReportsAListThatIsTooLargeForTheFileSystem) {
  const nfs_fh3 file = MakeFile("file");
  memory.faults->Add({.operation = fs::faulty::Operation::kSetAcls,
                      .when = {},
                      .effect = fs::faulty::FailWith(fs::Error::kXattrTooBig),
                      .object = {}});
  EXPECT_EQ(SetAccess(file, shared_), NFS3ERR_NOSPC);
}

TEST_F(SetAclTest, RejectsChangesOfAReadOnlyExport) {
  memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  const nfs_fh3 directory = memory.RootOf("/ro");
  const auto set = Set(directory, Lists(NA_ACL, shared_));
  EXPECT_EQ(set.status(), NFS3ERR_ROFS);
  EXPECT_TRUE(set.resfail().attr);
  EXPECT_EQ(Get(directory).status(), NFS3_OK);
}

}  // namespace
}  // namespace penstock::nfs::acl
