#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using RemoveTest = NfsTest;
using RemoveDirectoryTest = NfsTest;
using ReadOnlyRemoveTest = ReadOnlyTest;

// Adds a second export, "/other".
class TwoExportsTest : public NfsTest {
 protected:
  TwoExportsTest() { memory.Export("/other"), other = memory.RootOf("/other"); }
  nfs_fh3 other;
};
using RenameTest = TwoExportsTest;
using LinkTest = TwoExportsTest;

TEST_F(RemoveTest, RemovesTheName) {
  const nfs_fh3 file = MakeFile("file");
  const auto removed = Call<NFSPROC3_REMOVE>({{root, "file"}});
  ASSERT_EQ(removed.status(), NFS3_OK);
  EXPECT_THAT(removed.resok().dir_wcc, ShowsAChange());
  EXPECT_EQ(StatusOfLookup("file"), NFS3ERR_NOENT);
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({file}).status(), NFS3ERR_STALE);
}

TEST_F(RemoveTest, RejectsAMissingName) {
  const auto missing = Call<NFSPROC3_REMOVE>({{root, "missing"}});
  EXPECT_EQ(missing.status(), NFS3ERR_NOENT);
  EXPECT_THAT(missing.resfail().dir_wcc, IsUnchanged());
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root, ""}}).status(), NFS3ERR_ACCES);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{MakeFile("file"), "name"}}).status(), NFS3ERR_NOTDIR);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{StaleHandle(), "name"}}).status(), NFS3ERR_STALE);
}

TEST_F(RemoveTest, RejectsADirectory) {
  MakeDirectory("directory");
  const auto refused = Call<NFSPROC3_REMOVE>({{root, "directory"}});
  EXPECT_EQ(refused.status(), NFS3ERR_ISDIR);
  EXPECT_THAT(refused.resfail().dir_wcc, IsUnchanged());
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root, "."}}).status(), NFS3ERR_ISDIR);
}

TEST_F(RemoveTest, RequiresWritePermissionOnTheDirectory) {
  MakeFile("file", "", 0666);
  memory.SetUser(1000);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{root, "file"}}).status(), NFS3ERR_ACCES);
}

TEST_F(RemoveDirectoryTest, RemovesAnEmptyDirectory) {
  MakeDirectory("directory");
  const auto removed = Call<NFSPROC3_RMDIR>({{root, "directory"}});
  ASSERT_EQ(removed.status(), NFS3_OK);
  EXPECT_THAT(removed.resok().dir_wcc, ShowsAChange());
  EXPECT_EQ(removed.resok().dir_wcc.after->nlink, 2u);
}

TEST_F(RemoveDirectoryTest, RejectsAllButEmptyDirectories) {
  MakeFileIn(MakeDirectory("full"), "file");
  MakeFile("file");
  const auto full = Call<NFSPROC3_RMDIR>({{root, "full"}});
  EXPECT_EQ(full.status(), NFS3ERR_NOTEMPTY);
  EXPECT_THAT(full.resfail().dir_wcc, IsUnchanged());
  EXPECT_EQ(Call<NFSPROC3_RMDIR>({{root, "file"}}).status(), NFS3ERR_NOTDIR);
  EXPECT_EQ(Call<NFSPROC3_RMDIR>({{root, "missing"}}).status(), NFS3ERR_NOENT);
  EXPECT_EQ(Call<NFSPROC3_RMDIR>({{root, "."}}).status(), NFS3ERR_INVAL);
  EXPECT_EQ(Call<NFSPROC3_RMDIR>({{root, ".."}}).status(), NFS3ERR_EXIST);
}

TEST_F(RenameTest, MovesTheNameAndKeepsTheHandle) {
  const nfs_fh3 file = MakeFile("old", "contents");
  const nfs_fh3 directory = MakeDirectory("directory");
  const auto renamed = Call<NFSPROC3_RENAME>({{root, "old"}, {directory, "new"}});
  ASSERT_EQ(renamed.status(), NFS3_OK);
  EXPECT_THAT(renamed.resok().fromdir_wcc, ShowsAChange());
  EXPECT_THAT(renamed.resok().todir_wcc, ShowsAChange());
  EXPECT_EQ(StatusOfLookup("old"), NFS3ERR_NOENT);
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{directory, "new"}}).resok().object), file);
  EXPECT_EQ(ReadAll(file), "contents");
}

TEST_F(RenameTest, ReplacesACompatibleObject) {
  const nfs_fh3 file = MakeFile("from", "new");
  const nfs_fh3 replaced = MakeFile("to", "old");
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{root, "from"}, {root, "to"}}).status()), NFS3_OK);
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{root, "to"}}).resok().object), file);
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({replaced}).status(), NFS3ERR_STALE);
}

TEST_F(RenameTest, DoesNothingBetweenTwoNamesOfOneFile) {
  const nfs_fh3 file = MakeFile("one");
  ASSERT_EQ((Call<NFSPROC3_LINK>({file, {root, "two"}}).status()), NFS3_OK);
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{root, "one"}, {root, "two"}}).status()), NFS3_OK);
  EXPECT_EQ(StatusOfLookup("one"), NFS3_OK);
  EXPECT_EQ(StatusOfLookup("two"), NFS3_OK);
}

TEST_F(RenameTest, RejectsIncompatibleObjects) {
  MakeFile("file");
  const nfs_fh3 directory = MakeDirectory("directory");
  MakeDirectory("empty");
  MakeFileIn(directory, "inside");
  const auto status = [&](const char* from, const char* to) {
    const auto renamed = Call<NFSPROC3_RENAME>({{root, from}, {root, to}});
    EXPECT_THAT(renamed.resfail().fromdir_wcc, IsUnchanged());
    EXPECT_THAT(renamed.resfail().todir_wcc, IsUnchanged());
    return renamed.status();
  };
  EXPECT_EQ(status("file", "directory"), NFS3ERR_EXIST);
  EXPECT_EQ(status("directory", "file"), NFS3ERR_EXIST);
  EXPECT_EQ(status("empty", "directory"), NFS3ERR_EXIST);
  EXPECT_EQ(status("missing", "new"), NFS3ERR_NOENT);
  EXPECT_EQ(status("file", "."), NFS3ERR_INVAL);
  EXPECT_EQ(status("..", "new"), NFS3ERR_INVAL);
  EXPECT_EQ(status("file", ""), NFS3ERR_ACCES);
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{root, "directory"}, {directory, "inside itself"}}).status()), NFS3ERR_INVAL);
}

TEST_F(RenameTest, RejectsAnotherExport) {
  MakeFile("file");
  const auto across = Call<NFSPROC3_RENAME>({{root, "file"}, {other, "file"}});
  EXPECT_EQ(across.status(), NFS3ERR_XDEV);
  EXPECT_THAT(across.resfail().fromdir_wcc, IsUnchanged());
  EXPECT_EQ(across.resfail().todir_wcc, wcc_data{});
}

TEST_F(RenameTest, RequiresBothDirectories) {
  MakeFile("file");
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{NoHandle(), "file"}, {root, "new"}}).status()), NFS3ERR_BADHANDLE);
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{root, "file"}, {NoHandle(), "new"}}).status()), NFS3ERR_BADHANDLE);
  EXPECT_EQ((Call<NFSPROC3_RENAME>({{root, "file"}, {StaleHandle(), "new"}}).status()), NFS3ERR_STALE);
}

TEST_F(LinkTest, AddsAName) {
  const nfs_fh3 file = MakeFile("one", "contents");
  const auto linked = Call<NFSPROC3_LINK>({file, {root, "two"}});
  ASSERT_EQ(linked.status(), NFS3_OK);
  EXPECT_EQ(linked.resok().file_attributes->nlink, 2u);
  EXPECT_THAT(linked.resok().linkdir_wcc, ShowsAChange());
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{root, "two"}}).resok().object), file);
}

TEST_F(LinkTest, RejectsAnExistingName) {
  const nfs_fh3 file = MakeFile("file");
  for (const char* name : {"file", ".", ".."}) {
    const auto again = Call<NFSPROC3_LINK>({file, {root, name}});
    EXPECT_EQ(again.status(), NFS3ERR_EXIST) << name;
    EXPECT_THAT(again.resfail().linkdir_wcc, IsUnchanged());
    EXPECT_EQ(again.resfail().file_attributes->nlink, 1u);
  }
}

TEST_F(LinkTest, RejectsAnotherExport) {
  const auto across = Call<NFSPROC3_LINK>({MakeFile("file"), {other, "file"}});
  EXPECT_EQ(across.status(), NFS3ERR_XDEV);
  EXPECT_TRUE(across.resfail().file_attributes);
}

TEST_F(LinkTest, RequiresAFileAndADirectory) {
  const nfs_fh3 file = MakeFile("file");
  EXPECT_EQ((Call<NFSPROC3_LINK>({StaleHandle(), {root, "name"}}).status()), NFS3ERR_STALE);
  EXPECT_EQ((Call<NFSPROC3_LINK>({file, {NoHandle(), "name"}}).status()), NFS3ERR_BADHANDLE);
  EXPECT_EQ((Call<NFSPROC3_LINK>({file, {file, "name"}}).status()), NFS3ERR_NOTDIR);
  EXPECT_NE((Call<NFSPROC3_LINK>({MakeDirectory("directory"), {root, "name"}}).status()), NFS3_OK);
}

TEST_F(ReadOnlyRemoveTest, RejectsRemovingAndRenaming) {
  const auto removed = Call<NFSPROC3_REMOVE>({{directory, "file"}});
  EXPECT_EQ(removed.status(), NFS3ERR_ROFS);
  EXPECT_THAT(removed.resfail().dir_wcc, IsUnchanged());

  const auto directory_removed = Call<NFSPROC3_RMDIR>({{directory, "directory"}});
  EXPECT_EQ(directory_removed.status(), NFS3ERR_ROFS);
  EXPECT_THAT(directory_removed.resfail().dir_wcc, IsUnchanged());

  const auto renamed = Call<NFSPROC3_RENAME>({{directory, "file"}, {directory, "new"}});
  EXPECT_EQ(renamed.status(), NFS3ERR_ROFS);
  EXPECT_THAT(renamed.resfail().fromdir_wcc, IsUnchanged());
  EXPECT_THAT(renamed.resfail().todir_wcc, IsUnchanged());

  const auto linked = Call<NFSPROC3_LINK>({file, {directory, "new"}});
  EXPECT_EQ(linked.status(), NFS3ERR_ROFS);
  EXPECT_TRUE(linked.resfail().file_attributes);
  EXPECT_THAT(linked.resfail().linkdir_wcc, IsUnchanged());
}

}  // namespace
}  // namespace penstock::nfs::v3
