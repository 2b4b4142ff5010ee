#include "nfs/acl/acl_test.h"

namespace penstock::nfs::acl {
namespace {

using GetAclTest = AclTest;
using testing::IsEmpty;

TEST_F(GetAclTest, ReturnsTheModeAsAList) {
  const nfs_fh3 file = MakeFile("file", "", 0640);
  const auto got = Get(file);
  ASSERT_EQ(got.status(), NFS3_OK);
  EXPECT_EQ(got.resok().acl, Lists(kAllParts, OfMode(0640)));
  EXPECT_EQ(*got.resok().attr, AttributesOf(file));
  EXPECT_EQ(AccessOf(MakeSymlink("link", "file")), OfMode(0777));
}

TEST_F(GetAclTest, ReturnsBothListsOfADirectory) {
  const nfs_fh3 directory = MakeDirectory("directory");
  EXPECT_THAT(DefaultsOf(directory), IsEmpty());
  ASSERT_EQ(Set(directory, Lists(NA_ACL | NA_DFACL, shared_, AsDefaults(inherited_))).status(), NFS3_OK);
  EXPECT_EQ(Get(directory).resok().acl, Lists(kAllParts, shared_, AsDefaults(inherited_)));
}

TEST_F(GetAclTest, EveryCallerMayReadTheLists) {
  const nfs_fh3 file = MakeFile("file", "", 0600);
  memory.SetUser(1000);
  EXPECT_EQ(AccessOf(file), OfMode(0600));
}

TEST_F(GetAclTest, RejectsUnknownParts) {
  const auto got = Get(root, 0x10 | NA_ACL);
  EXPECT_EQ(got.status(), NFS3ERR_INVAL);
  EXPECT_TRUE(got.resfail().attr);
}

TEST_F(GetAclTest, RejectsABadHandle) {
  const auto stale = Get(StaleHandle());
  EXPECT_EQ(stale.status(), NFS3ERR_STALE);
  EXPECT_FALSE(stale.resfail().attr);
  EXPECT_EQ(Get(NoHandle()).status(), NFS3ERR_BADHANDLE);
}

TEST_F(GetAclTest, ReportsAFileSystemWithoutLists) {
  ASSERT_TRUE(memory.exports.Add("/plain", std::make_shared<WithoutAcls>(memory.faults), {.squash = Squash::kNone}));
  const nfs_fh3 plain = memory.RootOf("/plain");
  const auto got = Get(plain);
  EXPECT_EQ(got.status(), NFS3ERR_NOTSUPP);
  EXPECT_TRUE(got.resfail().attr);
  const auto set = Set(plain, Lists(NA_ACL, shared_));
  EXPECT_EQ(set.status(), NFS3ERR_NOTSUPP);
  EXPECT_TRUE(set.resfail().attr);
}

TEST_F(GetAclTest, ReportsAFailureOfTheFileSystem) {
  const nfs_fh3 file = MakeFile("file");
  memory.faults->Add({.operation = fs::faulty::Operation::kGetAcls,
                      .when = {},
                      .effect = fs::faulty::FailWith(fs::Error::kIo),
                      .object = {}});
  EXPECT_EQ(Get(file).status(), NFS3ERR_IO);
}

// A file system may permit longer lists than the protocol.
TEST_F(GetAclTest, ReportsAListThatIsTooLongForTheProtocol) {
  fs::Acl acl = fs::AclOfMode(0);
  acl.insert(acl.begin() + 2, {fs::AclTag::kMask, 0, 7});
  for (uint32_t id = 0; acl.size() <= NFS_ACL_MAX_ENTRIES; ++id) acl.insert(acl.end() - 2, {fs::AclTag::kGroup, id, 7});
  const nfs_fh3 file = MakeFile("file");
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  const auto handle = FileHandle::Parse(file.data.bytes())->object;
  ASSERT_TRUE(Now(memory.faults->SetAcls(context, handle, {acl, {}})).result);
  EXPECT_EQ(Get(file).status(), NFS3ERR_SERVERFAULT);
  EXPECT_EQ(Get(file, NA_DFACL).status(), NFS3_OK);
}

}  // namespace
}  // namespace penstock::nfs::acl
