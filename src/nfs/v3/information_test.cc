#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using InformationTest = NfsTest;

TEST_F(InformationTest, ReportsSpaceAndFiles) {
  const auto before = Call<NFSPROC3_FSSTAT>({root});
  ASSERT_EQ(before.status(), NFS3_OK);
  EXPECT_TRUE(before.resok().obj_attributes);
  EXPECT_GT(before.resok().tbytes, 0u);
  EXPECT_LE(before.resok().abytes, before.resok().fbytes);
  EXPECT_LE(before.resok().fbytes, before.resok().tbytes);
  MakeFile("file", std::string(4096, 'x'));
  EXPECT_LT(Call<NFSPROC3_FSSTAT>({root}).resok().fbytes, before.resok().fbytes);
}

TEST_F(InformationTest, ReportsTheTransferSizesOfTheSettings) {
  const auto information = Call<NFSPROC3_FSINFO>({root});
  ASSERT_EQ(information.status(), NFS3_OK);
  EXPECT_EQ(information.resok().rtmax, memory.settings.max_read);
  EXPECT_EQ(information.resok().wtmax, memory.settings.max_write);
  EXPECT_EQ(information.resok().dtpref, memory.settings.max_directory);
  EXPECT_LE(information.resok().rtpref, information.resok().rtmax);
  EXPECT_EQ(information.resok().maxfilesize, uint64_t{INT64_MAX});
  EXPECT_EQ(information.resok().time_delta, (nfstime3{0, 1}));
  EXPECT_EQ(information.resok().properties, FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME);
}

TEST_F(InformationTest, ReportsThatLongNamesAreRejected) {
  const auto limits = Call<NFSPROC3_PATHCONF>({root});
  ASSERT_EQ(limits.status(), NFS3_OK);
  EXPECT_EQ(limits.resok().name_max, 255u);
  EXPECT_TRUE(limits.resok().no_trunc);
  EXPECT_TRUE(limits.resok().chown_restricted);
  EXPECT_FALSE(limits.resok().case_insensitive);
  EXPECT_TRUE(limits.resok().case_preserving);
}

TEST_F(InformationTest, RejectsABadHandle) {
  const nfs_fh3 stale = StaleHandle();
  EXPECT_EQ(Call<NFSPROC3_FSSTAT>({stale}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_FSINFO>({stale}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_PATHCONF>({stale}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_FSSTAT>({NoHandle()}).status(), NFS3ERR_BADHANDLE);
  EXPECT_EQ(Call<NFSPROC3_FSINFO>({NoHandle()}).status(), NFS3ERR_BADHANDLE);
  EXPECT_EQ(Call<NFSPROC3_PATHCONF>({NoHandle()}).status(), NFS3ERR_BADHANDLE);
}

}  // namespace
}  // namespace penstock::nfs::v3
