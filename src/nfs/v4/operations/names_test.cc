#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class NamesTest : public Nfs4Test {
 protected:
  static createtype4 Directory() { return createtype4(NF4DIR); }
  static createtype4 Symlink(std::string_view text) { return createtype4(NF4LNK, linktext4::Borrowed(text)); }
  CompoundReply Create(std::string_view name, const createtype4& type, const fattr4& attributes = {}) {
    return Run0(PutRoot(), Op(OP_CREATE, CREATE4args{type, name, attributes}), GetFh());
  }
  CompoundReply Remove(std::string_view name) { return Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{name})); }
  CompoundReply Rename(std::string_view from, std::string_view to) {
    return Run0(PutRoot(), SaveFh(), Op(OP_RENAME, RENAME4args{from, to}));
  }
  CompoundReply Link(const nfs_fh4& file, std::string_view name) {
    return Run0(PutFh(file), SaveFh(), PutRoot(), Op(OP_LINK, LINK4args{name}));
  }
};
using CreateTest = NamesTest;
using RemoveTest = NamesTest;
using RenameTest = NamesTest;
using LinkTest = NamesTest;

TEST_F(CreateTest, MakesADirectoryAndMakesItCurrent) {
  GivenValues given(server.buffers);
  auto reply = Create("new", Directory(), given.Add(FATTR4_MODE, uint32_t{0750}).Take());
  ASSERT_EQ(reply.status, NFS4_OK);
  const CREATE4resok made = reply.Skip().Next<CREATE4res>().resok4();
  EXPECT_EQ(AttributeSet(made.attrset), AttributeSet{FATTR4_MODE});
  EXPECT_NE(made.cinfo.before, made.cinfo.after);
  EXPECT_EQ(AttributesOf("new")->mode, 0750u);
  const auto found = Now(tree.Lookup(AsRoot(), tree.Root(), "new"));
  EXPECT_EQ(reply.Next<GETFH4res>().resok4().object, HandleOf(found.result->handle));
}

TEST_F(CreateTest, MakesEveryOtherType) {
  EXPECT_EQ(Create("link", Symlink("target")).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("link")->type, fs::FileType::kSymlink);
  EXPECT_EQ(Create("fifo", createtype4(NF4FIFO)).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("fifo")->type, fs::FileType::kFifo);
  EXPECT_EQ(Create("socket", createtype4(NF4SOCK)).status, NFS4_OK);
  EXPECT_EQ(Create("device", createtype4(NF4CHR, specdata4{1, 3})).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("device")->rdev, (fs::Device{1, 3}));
}

TEST_F(CreateTest, RejectsRegularFiles) {
  EXPECT_EQ(Create("file", createtype4(NF4REG)).status, NFS4ERR_BADTYPE);
  EXPECT_EQ(Create("attributes", createtype4(NF4ATTRDIR)).status, NFS4ERR_BADTYPE);
  EXPECT_EQ(Create("unheard of", createtype4(static_cast<nfs_ftype4>(77))).status, NFS4ERR_BADTYPE);
}

TEST_F(CreateTest, RejectsExistingAndInvalidNames) {
  EXPECT_EQ(Create("new", Directory()).status, NFS4_OK);
  EXPECT_EQ(Create("new", Directory()).status, NFS4ERR_EXIST);
  EXPECT_EQ(Create("", Directory()).status, NFS4ERR_INVAL);
  EXPECT_EQ(Create(".", Directory()).status, NFS4ERR_BADNAME);
  EXPECT_EQ(Create("a/b", Directory()).status, NFS4ERR_BADCHAR);
}

TEST_F(CreateTest, RejectsANonDirectory) {
  const CREATE4args arguments{Directory(), "new", {}};
  EXPECT_EQ(Run0(PutFh(MakeFile("file")), Op(OP_CREATE, arguments)).status, NFS4ERR_NOTDIR);
  EXPECT_EQ(Run0(PutFh(MakeSymlink("link", "x")), Op(OP_CREATE, arguments)).status, NFS4ERR_SYMLINK);
}

TEST_F(CreateTest, RejectsUnsupportedAttributes) {
  GivenValues read_only(server.buffers);
  EXPECT_EQ(Create("a", Directory(), read_only.Add(FATTR4_FILEID, uint64_t{1}).Take()).status, NFS4ERR_INVAL);
  GivenValues size(server.buffers);
  EXPECT_EQ(Create("b", Directory(), size.Add(FATTR4_SIZE, uint64_t{1}).Take()).status, NFS4ERR_INVAL);
  EXPECT_EQ(Create("c", Symlink("")).status, NFS4ERR_INVAL);
  EXPECT_FALSE(AttributesOf("a") || AttributesOf("b") || AttributesOf("c"));
}

// RFC 8275
TEST_F(CreateTest, AppliesTheUmaskOfModeUmask) {
  GivenValues given(server.buffers);
  given.Add(FATTR4_MODE_UMASK, mode_umask4{.mu_mode = 0777, .mu_umask = 022});
  EXPECT_EQ(Run(PutRoot(), Op(OP_CREATE, CREATE4args{Directory(), "new", given.Take()})).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("new")->mode, 0755u);
}

TEST_F(RemoveTest, RemovesFilesAndDirectories) {
  MakeFile("file");
  MakeDirectory("directory");
  auto reply = Remove("file");
  const REMOVE4res removed = reply.Skip().Next<REMOVE4res>();
  EXPECT_NE(removed.resok4().cinfo.before, removed.resok4().cinfo.after);
  EXPECT_EQ(Remove("directory").status, NFS4_OK);
  EXPECT_EQ(Remove("file").status, NFS4ERR_NOENT);
}

TEST_F(RemoveTest, RejectsADirectoryThatIsNotEmpty) {
  const nfs_fh4 directory = MakeDirectory("directory");
  Run0(PutFh(directory), Op(OP_CREATE, CREATE4args{Directory(), "in it", {}}));
  EXPECT_EQ(Remove("directory").status, NFS4ERR_NOTEMPTY);
}

TEST_F(RemoveTest, RequiresADirectoryAndAName) {
  EXPECT_EQ(Run0(PutFh(MakeFile("file")), Op(OP_REMOVE, REMOVE4args{"x"})).status, NFS4ERR_NOTDIR);
  EXPECT_EQ(Remove("").status, NFS4ERR_INVAL);
  EXPECT_EQ(Remove("..").status, NFS4ERR_BADNAME);
}

TEST_F(RenameTest, MovesAName) {
  MakeFile("from", "contents");
  auto reply = Rename("from", "to");
  ASSERT_EQ(reply.status, NFS4_OK);
  const RENAME4res renamed = reply.Skip(2).Next<RENAME4res>();
  EXPECT_NE(renamed.resok4().source_cinfo.before, renamed.resok4().source_cinfo.after);
  EXPECT_FALSE(AttributesOf("from"));
  EXPECT_EQ(ContentsOf("to"), "contents");
}

TEST_F(RenameTest, RequiresBothFilehandlesAndNames) {
  EXPECT_EQ(Run0(PutRoot(), Op(OP_RENAME, RENAME4args{"a", "b"})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(Rename("none", "to").status, NFS4ERR_NOENT);
  MakeFile("file");
  EXPECT_EQ(Rename("file", "").status, NFS4ERR_INVAL);
  EXPECT_EQ(Rename("file", ".").status, NFS4ERR_BADNAME);
  EXPECT_EQ(Rename(".", "file").status, NFS4ERR_BADNAME);
}

TEST_F(RenameTest, RejectsReplacingAFileByADirectory) {
  MakeDirectory("directory");
  MakeFile("file");
  EXPECT_EQ(Rename("directory", "file").status, NFS4ERR_EXIST);
  EXPECT_EQ(Rename("file", "directory").status, NFS4ERR_EXIST);
}

TEST_F(LinkTest, AddsAName) {
  const nfs_fh4 file = MakeFile("file", "contents");
  EXPECT_EQ(Link(file, "other").status, NFS4_OK);
  EXPECT_EQ(ContentsOf("other"), "contents");
  EXPECT_EQ(Link(file, "other").status, NFS4ERR_EXIST);
}

TEST_F(LinkTest, RejectsDirectories) { EXPECT_EQ(Link(MakeDirectory("directory"), "other").status, NFS4ERR_ISDIR); }

TEST_F(LinkTest, RequiresADirectory) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run0(PutFh(file), SaveFh(), Op(OP_LINK, LINK4args{"x"})).status, NFS4ERR_NOTDIR);
}

class ReadOnlyTest : public testing::Test {
 protected:
  ReadOnlyTest() {
    fs::memory::FileSystem& tree = server.Export("/", {.read_only = true, .squash = Squash::kNone});
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    Now(tree.Create(root, tree.Root(), "file", {}));
  }
  Nfs4Server server;
};

TEST_F(ReadOnlyTest, RejectsEveryChange) {
  const createtype4 directory(NF4DIR);
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_CREATE, CREATE4args{directory, "new", {}})).status, NFS4ERR_ROFS);
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_ROFS);
  EXPECT_EQ(server.Run(0, PutRoot(), SaveFh(), Op(OP_RENAME, RENAME4args{"file", "b"})).status, NFS4ERR_ROFS);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("file"), SaveFh(), PutRoot(), Op(OP_LINK, LINK4args{"b"})).status,
            NFS4ERR_ROFS);
  const WRITE4args write{{}, 0, UNSTABLE4, xdr::Payload<>::Borrowed("x")};
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("file"), Op(OP_WRITE, write)).status, NFS4ERR_ROFS);
  GivenValues given(server.buffers);
  const SETATTR4args mode{{}, given.Add(FATTR4_MODE, uint32_t{0}).Take()};
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("file"), Op(OP_SETATTR, mode)).status, NFS4ERR_ROFS);
}

TEST_F(ReadOnlyTest, AccessGrantsNoRightToChange) {
  auto reply = server.Run(0, PutRoot(), Op(OP_ACCESS, ACCESS4args{0x3f}));
  EXPECT_EQ(reply.Skip().Next<ACCESS4res>().resok4().access, ACCESS4_READ | ACCESS4_LOOKUP);
}

}  // namespace
}  // namespace penstock::nfs::v4
