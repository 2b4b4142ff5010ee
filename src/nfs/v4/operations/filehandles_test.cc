#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class FileHandlesTest : public Nfs4Test {
 protected:
  nfs_fh4 HandleIn(CompoundReply reply, uint32_t before) {
    return reply.Skip(before).Next<GETFH4res>().resok4().object;
  }
};

TEST_F(FileHandlesTest, StartsWithoutACurrentFilehandle) {
  EXPECT_EQ(Run0(GetFh()).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(Run0(SaveFh()).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(Run(GetFh()).status, NFS4ERR_NOFILEHANDLE);
}

TEST_F(FileHandlesTest, PublicFilehandleIsTheRoot) {
  EXPECT_EQ(HandleIn(Run0(PutRoot(), GetFh()), 1), Root());
  EXPECT_EQ(HandleIn(Run0(Op(OP_PUTPUBFH), GetFh()), 1), Root());
}

TEST_F(FileHandlesTest, GetfhReturnsThePutFilehandle) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(HandleIn(Run(PutFh(file), GetFh()), 1), file);
}

TEST_F(FileHandlesTest, PutfhRejectsMalformedFilehandles) {
  const nfs_fh4 none(AsBytes("no handle of this server"));
  EXPECT_EQ(Run0(PutFh(none)).status, NFS4ERR_BADHANDLE);
  EXPECT_EQ(Run0(PutFh(nfs_fh4{})).status, NFS4ERR_BADHANDLE);
}

TEST_F(FileHandlesTest, ReportsStaleForAMissingOrRefusingExport) {
  FileHandle other{ExportId(4711), tree.Root()};
  EXPECT_EQ(Run0(PutFh(ToFileHandle(other))).status, NFS4ERR_STALE);
}

// RFC 8881 §4.2.2
TEST_F(FileHandlesTest, ReportsStaleForARemovedFile) {
  const nfs_fh4 file = MakeFile("file");
  EXPECT_EQ(Run0(PutFh(file)).status, NFS4_OK);
  ASSERT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
  EXPECT_EQ(Run0(PutFh(file)).status, NFS4ERR_STALE);
}

TEST_F(FileHandlesTest, RestoresTheSavedFilehandle) {
  const nfs_fh4 file = MakeFile("file");
  const auto put_and_save = Run0(PutFh(file), SaveFh(), PutRoot(), RestoreFh(), GetFh());
  EXPECT_EQ(put_and_save.status, NFS4_OK);
  EXPECT_EQ(HandleIn(Run0(PutFh(file), SaveFh(), PutRoot(), RestoreFh(), GetFh()), 4), file);
}

TEST_F(FileHandlesTest, RestorefhWithoutSavefhHasTheErrorOfItsDialect) {
  EXPECT_EQ(Run0(PutRoot(), RestoreFh()).status, NFS4ERR_RESTOREFH);
  EXPECT_EQ(Run(PutRoot(), RestoreFh()).status, NFS4ERR_NOFILEHANDLE);
}

}  // namespace
}  // namespace penstock::nfs::v4
