// CREATE, MKDIR, SYMLINK.
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class CreateTest : public NfsTest {
 protected:
  diropres Create(std::string_view name, const sattr& values) { return Call<NFSPROC_CREATE>({{root, name}, values}); }
  // Returns the attributes of a new object, as version 2 sees them, or a type that no object has.
  fattr Made(std::string_view name, uint32_t mode, uint32_t size = UINT32_MAX) {
    sattr values = Mode(mode);
    values.size = size;
    const auto made = Create(name, values);
    EXPECT_EQ(made.status(), NFS_OK) << name;
    return made.is_ok() ? made.ok().attributes : fattr{};
  }
  // Returns the attributes of an object as the file system has them.
  fs::Attributes InTree(std::string_view name) {
    return Now(tree->Lookup(root_context, tree->Root(), name)).result->attributes;
  }
};

TEST_F(CreateTest, MakesAFileWithItsAttributes) {
  sattr values = Mode(0100640);
  values.size = 3;
  values.mtime = {7, 8};
  const auto made = Create("file", values);
  ASSERT_EQ(made.status(), NFS_OK);
  EXPECT_EQ(made.ok().attributes.mode, 0100640u);
  EXPECT_EQ(made.ok().attributes.size, 3u);
  EXPECT_EQ(made.ok().attributes.mtime, (nfstime{7, 8}));
  EXPECT_EQ(AttributesOf(made.ok().file), made.ok().attributes);
  EXPECT_EQ(Lookup("file").ok(), made.ok());
}

TEST_F(CreateTest, AModeWithoutATypeMakesAFile) {
  EXPECT_EQ(Made("file", 0600).mode, 0100600u);
  EXPECT_EQ(Create("unset", Unset()).ok().attributes.type, NFREG);
}

TEST_F(CreateTest, AcceptsAFileThatExists) {
  const fhandle file = MakeFile("file", "hello", 0600);
  const auto again = Create("file", Mode(0100777));
  ASSERT_EQ(again.status(), NFS_OK);
  EXPECT_EQ(again.ok().file, file);
  EXPECT_EQ(again.ok().attributes.mode, 0100600u);
  EXPECT_EQ(ReadAll(file), "hello");
  EXPECT_EQ(Create("file", Size(0)).ok().attributes.size, 0u);
  MakeDirectory("directory");
  EXPECT_EQ(Create("directory", Mode(0100644)).status(), NFSERR_EXIST);
}

// Version 2 has no MKNOD: the mode says the type, and the size the number of a device.
TEST_F(CreateTest, TheModeSaysTheTypeOfASpecialFile) {
  const fattr character = Made("character", 0020600, (5 << 8) | 1);
  EXPECT_EQ(character.type, NFCHR);
  EXPECT_EQ(character.mode, 0020600u);
  EXPECT_EQ(character.rdev, 0x501u);
  EXPECT_EQ(InTree("character").rdev, (fs::Device{5, 1}));
  const fattr block = Made("block", 0060600, 0x12345678);
  EXPECT_EQ(block.type, NFBLK);
  EXPECT_EQ(block.rdev, 0x12345678u);
  EXPECT_EQ(InTree("block").rdev, (fs::Device{0x456, 0x12378}));
  const fattr socket = Made("socket", 0140600);
  EXPECT_EQ(socket.type, NFNON);
  EXPECT_EQ(socket.mode, 0140600u);
  EXPECT_EQ(InTree("socket").type, fs::FileType::kSocket);
}

TEST_F(CreateTest, ACharacterDeviceWithoutANumberIsAFifo) {
  for (const auto& [name, mode] : {std::pair("by device", 0020640u), std::pair("by type", 0010640u)}) {
    const fattr fifo = Made(name, mode);
    EXPECT_EQ(fifo.type, NFCHR);
    EXPECT_EQ(fifo.mode, 0020640u);
    EXPECT_EQ(fifo.rdev, UINT32_MAX);
    EXPECT_EQ(InTree(name).type, fs::FileType::kFifo);
  }
}

TEST_F(CreateTest, ASpecialFileMustBeNew) {
  MakeFile("file", "hello");
  EXPECT_EQ(Create("file", Mode(0010644)).status(), NFSERR_EXIST);
  EXPECT_EQ(InTree("file").type, fs::FileType::kRegular);
}

TEST_F(CreateTest, RejectsTypesThatHaveTheirOwnProcedures) {
  EXPECT_EQ(Create("directory", Mode(0040755)).status(), NFSERR_ISDIR);
  EXPECT_EQ(Create("link", Mode(0120777)).status(), NFSERR_IO);
  EXPECT_EQ(Create("odd", Mode(0150777)).status(), NFSERR_IO);
  for (const char* name : {"directory", "link", "odd"}) EXPECT_EQ(Lookup(name).status(), NFSERR_NOENT);
}

TEST_F(CreateTest, RejectsNamesThatCannotBeMade) {
  EXPECT_EQ(Create("", Mode(0644)).status(), NFSERR_ACCES);
  EXPECT_EQ(Create("a/b", Mode(0644)).status(), NFSERR_ACCES);
  EXPECT_EQ(Create("..", Mode(0644)).status(), NFSERR_EXIST);
}

TEST_F(CreateTest, ChecksThePermissionOfTheDirectory) {
  memory.SetUser(1000);
  EXPECT_EQ(Create("file", Mode(0644)).status(), NFSERR_ACCES);
  EXPECT_EQ((Call<NFSPROC_MKDIR>({{root, "directory"}, Mode(0755)}).status()), NFSERR_ACCES);
  EXPECT_EQ(MakeSymlink("link", "target"), NFSERR_ACCES);
}

TEST_F(CreateTest, RejectsChangesOfAReadOnlyExport) {
  memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  const fhandle directory = RootOf("/ro");
  EXPECT_EQ((Call<NFSPROC_CREATE>({{directory, "f"}, Mode(0644)}).status()), NFSERR_ROFS);
  EXPECT_EQ((Call<NFSPROC_MKDIR>({{directory, "d"}, Mode(0755)}).status()), NFSERR_ROFS);
  const auto target = xdr::Payload<NFS_MAXPATHLEN>::Borrowed("t");
  EXPECT_EQ((Call<NFSPROC_SYMLINK>({{directory, "l"}, target, Mode(0777)})), NFSERR_ROFS);
}

TEST_F(CreateTest, MakesADirectory) {
  sattr values = Mode(0040711);
  values.size = 0;
  const auto made = Call<NFSPROC_MKDIR>({{root, "directory"}, values});
  ASSERT_EQ(made.status(), NFS_OK);
  EXPECT_EQ(made.ok().attributes.type, NFDIR);
  EXPECT_EQ(made.ok().attributes.mode, 0040711u);
  EXPECT_EQ((Call<NFSPROC_MKDIR>({{root, "directory"}, values}).status()), NFSERR_EXIST);
}

TEST_F(CreateTest, MakesASymbolicLink) {
  const std::string path(NFS_MAXPATHLEN, 'p');
  ASSERT_EQ(MakeSymlink("link", path), NFS_OK);
  const auto read = Call<NFSPROC_READLINK>(Lookup("link").ok().file);
  ASSERT_EQ(read.status(), NFS_OK);
  EXPECT_EQ(read.data().text(), path);
  EXPECT_EQ(MakeSymlink("link", path), NFSERR_EXIST);
}

}  // namespace
}  // namespace penstock::nfs::v2
