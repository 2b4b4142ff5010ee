#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;

class LookupTest : public Nfs4Test {
 protected:
  nfsstat4 StatusOf(std::string_view name) { return Run0(PutRoot(), LookUp(name)).status; }
};
class ReadLinkTest : public Nfs4Test {};
class SecurityInformationTest : public Nfs4Test {
 protected:
  std::vector<rpcmsg::auth_flavor> Flavors(const SECINFO4res& result) {
    std::vector<rpcmsg::auth_flavor> flavors;
    for (const secinfo4& each : result.resok4()) flavors.push_back(each.flavor());
    return flavors;
  }
};

TEST_F(LookupTest, FindsAName) {
  const nfs_fh4 file = MakeFile("file");
  auto reply = Run0(PutRoot(), LookUp("file"), GetFh());
  EXPECT_EQ(reply.Skip(2).Next<GETFH4res>().resok4().object, file);
  EXPECT_EQ(StatusOf("other"), NFS4ERR_NOENT);
}

TEST_F(LookupTest, RejectsInvalidNames) {
  EXPECT_EQ(StatusOf(""), NFS4ERR_INVAL);
  EXPECT_EQ(StatusOf("\xff"), NFS4ERR_INVAL);
  EXPECT_EQ(StatusOf("."), NFS4ERR_BADNAME);
  EXPECT_EQ(StatusOf(".."), NFS4ERR_BADNAME);
  EXPECT_EQ(StatusOf("a/b"), NFS4ERR_BADCHAR);
  EXPECT_EQ(StatusOf(std::string(256, 'x')), NFS4ERR_NAMETOOLONG);
}

TEST_F(LookupTest, RejectsANonDirectory) {
  EXPECT_EQ(Run0(PutFh(MakeFile("file")), LookUp("x")).status, NFS4ERR_NOTDIR);
  EXPECT_EQ(Run0(PutFh(MakeSymlink("link", "file")), LookUp("x")).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(Run0(PutFh(StaleHandle()), LookUp("x")).status, NFS4ERR_STALE);
}

TEST_F(LookupTest, RequiresSearchPermission) {
  const nfs_fh4 directory = MakeDirectory("directory", 0600);
  server.SetUser(1000);
  EXPECT_EQ(Run0(PutFh(directory), LookUp("x")).status, NFS4ERR_ACCESS);
}

TEST_F(LookupTest, FindsTheParentOfADirectory) {
  const nfs_fh4 directory = MakeDirectory("directory");
  auto reply = Run0(PutFh(directory), LookUpParent(), GetFh());
  EXPECT_EQ(reply.Skip(2).Next<GETFH4res>().resok4().object, Root());
  EXPECT_EQ(Run0(PutFh(MakeFile("file")), LookUpParent()).status, NFS4ERR_NOTDIR);
}

TEST_F(LookupTest, RootHasNoParent) { EXPECT_EQ(Run0(PutRoot(), LookUpParent()).status, NFS4ERR_NOENT); }

TEST_F(ReadLinkTest, ReturnsTheTextAsAPayload) {
  auto reply = Run0(PutFh(MakeSymlink("link", "to/this")), Op(OP_READLINK));
  EXPECT_EQ(reply.Skip().Next<READLINK4res>().resok4().link.text(), "to/this");
  EXPECT_EQ(reply.answer().message.items.size(), 1u);
}

TEST_F(ReadLinkTest, RejectsOtherTypes) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run0(PutFh(file), Op(OP_READLINK)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_READLINK)).status, NFS4ERR_WRONG_TYPE);
}

TEST_F(SecurityInformationTest, KeepsTheFilehandleInMinorVersion0) {
  MakeFile("file");
  auto reply = Run0(PutRoot(), Op(OP_SECINFO, SECINFO4args{"file"}), GetFh());
  EXPECT_THAT(Flavors(reply.Skip().Next<SECINFO4res>()), ElementsAre(rpcmsg::AUTH_SYS));
  EXPECT_EQ(reply.status, NFS4_OK);
}

TEST_F(SecurityInformationTest, ConsumesTheFilehandleInLaterVersions) {
  MakeFile("file");
  EXPECT_EQ(Run(PutRoot(), Op(OP_SECINFO, SECINFO4args{"file"}), GetFh()).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(Run(PutRoot(), Op(OP_SECINFO_NO_NAME, SECINFO_STYLE4_CURRENT_FH), GetFh()).status, NFS4ERR_NOFILEHANDLE);
}

TEST_F(SecurityInformationTest, ReturnsTheFlavorsOfTheParent) {
  const nfs_fh4 directory = MakeDirectory("directory");
  auto reply = Run(PutFh(directory), Op(OP_SECINFO_NO_NAME, SECINFO_STYLE4_PARENT));
  EXPECT_THAT(Flavors(reply.Skip().Next<SECINFO4res>()), ElementsAre(rpcmsg::AUTH_SYS));
  EXPECT_EQ(Run(PutRoot(), Op(OP_SECINFO_NO_NAME, SECINFO_STYLE4_PARENT)).status, NFS4ERR_NOENT);
}

TEST_F(SecurityInformationTest, RejectsAMissingName) {
  EXPECT_EQ(Run0(PutRoot(), Op(OP_SECINFO, SECINFO4args{"none"})).status, NFS4ERR_NOENT);
  EXPECT_EQ(Run0(PutFh(MakeFile("file")), Op(OP_SECINFO, SECINFO4args{"x"})).status, NFS4ERR_NOTDIR);
}

}  // namespace
}  // namespace penstock::nfs::v4
