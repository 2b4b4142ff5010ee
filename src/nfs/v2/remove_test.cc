// REMOVE, RMDIR, RENAME, LINK.
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class RemoveTest : public NfsTest {
 protected:
  nfsstat Rename(std::string_view from, std::string_view to) {
    return Call<NFSPROC_RENAME>({{root, from}, {root, to}});
  }
  nfsstat RemoveDirectory(std::string_view name) { return Call<NFSPROC_RMDIR>({root, name}); }
};

TEST_F(RemoveTest, RemovesAFile) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ(Remove("file"), NFS_OK);
  EXPECT_EQ(Lookup("file").status(), NFSERR_NOENT);
  EXPECT_EQ(Call<NFSPROC_GETATTR>(file).status(), NFSERR_STALE);
  EXPECT_EQ(Remove("file"), NFSERR_NOENT);
}

TEST_F(RemoveTest, RemovesAnEmptyDirectory) {
  MakeFileIn(MakeDirectory("directory"), "file");
  EXPECT_EQ(RemoveDirectory("directory"), NFSERR_NOTEMPTY);
  EXPECT_EQ(Remove("directory"), NFSERR_ISDIR);
  EXPECT_EQ((Call<NFSPROC_REMOVE>({Lookup("directory").ok().file, "file"})), NFS_OK);
  EXPECT_EQ(RemoveDirectory("directory"), NFS_OK);
  MakeFile("file");
  EXPECT_EQ(RemoveDirectory("file"), NFSERR_NOTDIR);
}

TEST_F(RemoveTest, RenamesAFile) {
  const fhandle file = MakeFile("from", "hello");
  MakeFile("to", "replaced");
  EXPECT_EQ(Rename("from", "to"), NFS_OK);
  EXPECT_EQ(Lookup("to").ok().file, file);
  EXPECT_EQ(Lookup("from").status(), NFSERR_NOENT);
  EXPECT_EQ(Rename("from", "to"), NFSERR_NOENT);
}

TEST_F(RemoveTest, RenamesBetweenDirectoriesButNotBetweenExports) {
  MakeFile("file");
  const fhandle directory = MakeDirectory("directory");
  EXPECT_EQ((Call<NFSPROC_RENAME>({{root, "file"}, {directory, "moved"}})), NFS_OK);
  memory.Export("/other");
  EXPECT_EQ((Call<NFSPROC_RENAME>({{directory, "moved"}, {RootOf("/other"), "moved"}})), NFSERR_IO);
  EXPECT_EQ((Call<NFSPROC_RENAME>({{directory, "moved"}, {fhandle{}, "moved"}})), NFSERR_STALE);
  EXPECT_EQ((Call<NFSPROC_LOOKUP>({directory, "moved"}).status()), NFS_OK);
}

TEST_F(RemoveTest, LinksAFile) {
  const fhandle file = MakeFile("file");
  EXPECT_EQ((Call<NFSPROC_LINK>({file, {root, "link"}})), NFS_OK);
  EXPECT_EQ(AttributesOf(file).nlink, 2u);
  EXPECT_EQ(Lookup("link").ok().file, file);
  EXPECT_EQ((Call<NFSPROC_LINK>({file, {root, "link"}})), NFSERR_EXIST);
  EXPECT_EQ((Call<NFSPROC_LINK>({StaleHandle(), {root, "stale"}})), NFSERR_STALE);
}

TEST_F(RemoveTest, RejectsChangesOfAReadOnlyExport) {
  fs::memory::FileSystem& served = memory.Export("/ro", {.read_only = true, .squash = Squash::kNone});
  Now(served.Create(root_context, served.Root(), "file", {}));
  Now(served.MakeDirectory(root_context, served.Root(), "directory", {}));
  const fhandle top = RootOf("/ro");
  const fhandle file = Call<NFSPROC_LOOKUP>({top, "file"}).ok().file;
  EXPECT_EQ((Call<NFSPROC_REMOVE>({top, "file"})), NFSERR_ROFS);
  EXPECT_EQ((Call<NFSPROC_RMDIR>({top, "directory"})), NFSERR_ROFS);
  EXPECT_EQ((Call<NFSPROC_RENAME>({{top, "file"}, {top, "moved"}})), NFSERR_ROFS);
  EXPECT_EQ((Call<NFSPROC_LINK>({file, {top, "link"}})), NFSERR_ROFS);
}

}  // namespace
}  // namespace penstock::nfs::v2
