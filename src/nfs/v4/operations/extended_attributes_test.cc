#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class XattrTest : public Nfs4Test {
 protected:
  static auto Set(std::string_view name, std::string_view value, setxattr_option4 option = SETXATTR4_EITHER) {
    return Op(OP_SETXATTR, SETXATTR4args{option, name, xattrvalue4(AsBytes(value))});
  }
  static auto Get(std::string_view name) { return Op(OP_GETXATTR, GETXATTR4args{name}); }
  static auto Remove(std::string_view name) { return Op(OP_REMOVEXATTR, REMOVEXATTR4args{name}); }
  static auto List(uint64_t cookie, uint32_t maxcount) { return Op(OP_LISTXATTRS, LISTXATTRS4args{cookie, maxcount}); }

  std::string Value(const nfs_fh4& file, std::string_view name) {
    auto reply = Run(PutFh(file), Get(name));
    EXPECT_EQ(reply.status, NFS4_OK);
    return std::string(AsText(reply.Skip().Next<GETXATTR4res>().gxr_value().bytes()));
  }
  LISTXATTRS4resok ListOk(const nfs_fh4& file, uint64_t cookie, uint32_t maxcount) {
    auto reply = Run(PutFh(file), List(cookie, maxcount));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<LISTXATTRS4res>().lxr_value();
  }
};

TEST_F(XattrTest, ReturnsTheValueThatWasSet) {
  const nfs_fh4 file = MakeFile("file");
  const uint64_t before = AttributesOf("file")->change;
  auto reply = Run(PutFh(file), Set("name", "value"));
  ASSERT_EQ(reply.status, NFS4_OK);
  const change_info4 change = reply.Skip().Next<SETXATTR4res>().sxr_info();
  EXPECT_EQ(change.before, before);
  EXPECT_EQ(change.after, AttributesOf("file")->change);
  EXPECT_NE(change.after, before);
  EXPECT_EQ(Value(file, "name"), "value");
  EXPECT_EQ(Run(PutFh(Root()), Set("name", "value")).status, NFS4_OK) << "directories have extended attributes, too";
}

TEST_F(XattrTest, DistinguishesCreateAndReplace) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run(PutFh(file), Set("name", "one", SETXATTR4_REPLACE)).status, NFS4ERR_NOXATTR);
  EXPECT_EQ(Run(PutFh(file), Set("name", "one", SETXATTR4_CREATE)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Set("name", "two", SETXATTR4_CREATE)).status, NFS4ERR_EXIST);
  EXPECT_EQ(Run(PutFh(file), Set("name", "two", SETXATTR4_REPLACE)).status, NFS4_OK);
  EXPECT_EQ(Value(file, "name"), "two");
}

TEST_F(XattrTest, RemovesAnAttribute) {
  const nfs_fh4 file = MakeFile("file");
  ASSERT_EQ(Run(PutFh(file), Set("name", "value")).status, NFS4_OK);
  const uint64_t before = AttributesOf("file")->change;
  auto reply = Run(PutFh(file), Remove("name"));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(reply.Skip().Next<REMOVEXATTR4res>().rxr_info().before, before);
  EXPECT_EQ(Run(PutFh(file), Get("name")).status, NFS4ERR_NOXATTR);
  EXPECT_EQ(Run(PutFh(file), Remove("name")).status, NFS4ERR_NOXATTR);
}

TEST_F(XattrTest, ListsEachNameOnceInPages) {
  const nfs_fh4 file = MakeFile("file");
  for (const char* name : {"one", "two", "three", "four", "five", "six"}) {
    ASSERT_EQ(Run(PutFh(file), Set(name, "x")).status, NFS4_OK);
  }
  std::vector<std::string> names;
  uint64_t cookie = 0;
  for (bool eof = false; !eof;) {
    const LISTXATTRS4resok page = ListOk(file, cookie, 16 + 2 * 12);
    EXPECT_LE(page.lxr_names.size(), 3u);
    EXPECT_FALSE(page.lxr_names.empty());
    for (const auto& name : page.lxr_names) names.emplace_back(name);
    // Removing a listed name between two pages must not affect the other names.
    Run(PutFh(file), Remove(names.back()));
    cookie = page.lxr_cookie;
    eof = page.lxr_eof;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("one", "two", "three", "four", "five", "six"));
}

TEST_F(XattrTest, ReturnsAnEmptyList) {
  const LISTXATTRS4resok none = ListOk(MakeFile("file"), 0, 16);
  EXPECT_TRUE(none.lxr_names.empty());
  EXPECT_TRUE(none.lxr_eof);
}

TEST_F(XattrTest, RejectsACountTooSmallForOneName) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run(PutFh(file), List(0, 15)).status, NFS4ERR_TOOSMALL);
  ASSERT_EQ(Run(PutFh(file), Set("name", "x")).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), List(0, 16 + 7)).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(ListOk(file, 0, 16 + 8).lxr_names.size(), 1u);
}

TEST_F(XattrTest, ChecksNamesAndValues) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run(PutFh(file), Set("", "x")).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Set("\xff", "x")).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Set(std::string(300, 'n'), "x")).status, NFS4ERR_NAMETOOLONG);
  EXPECT_EQ(Run(PutFh(file), Set("name", std::string(70'000, 'v'))).status, NFS4ERR_XATTR2BIG);
  EXPECT_EQ(Run(PutFh(file), Set("with/slash", "x")).status, NFS4_OK);
}

TEST_F(XattrTest, RejectsOtherTypesOfObjects) {
  const nfs_fh4 link = MakeSymlink("link", "target");
  EXPECT_EQ(Run(PutFh(link), Set("name", "x")).status, NFS4ERR_WRONG_TYPE);
  EXPECT_EQ(Run(PutFh(link), Get("name")).status, NFS4ERR_NOXATTR);
}

TEST_F(XattrTest, RequiresThePermissionsForTheData) {
  const nfs_fh4 file = MakeFile("file", "", 0600);
  ASSERT_EQ(Run(PutFh(file), Set("name", "value")).status, NFS4_OK);
  server.SetUser(1000);
  EXPECT_EQ(Run(PutFh(file), Get("name")).status, NFS4ERR_ACCESS);
  EXPECT_EQ(Run(PutFh(file), Set("name", "x")).status, NFS4ERR_ACCESS);
  EXPECT_EQ(Run(PutFh(file), List(0, 1000)).status, NFS4ERR_ACCESS);
  EXPECT_EQ(Run(PutFh(file), Remove("name")).status, NFS4ERR_ACCESS);
}

}  // namespace
}  // namespace penstock::nfs::v4
