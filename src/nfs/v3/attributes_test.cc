#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using GetAttributesTest = NfsTest;
using SetAttributesTest = NfsTest;
using AccessTest = NfsTest;
using ReadOnlyAttributesTest = ReadOnlyTest;

nfsstat3 Status(const auto& results) { return results.status(); }

TEST_F(GetAttributesTest, ReturnsTheAttributesOfAnObject) {
  const fattr3 attributes = AttributesOf(MakeFile("file", "contents", 0640));
  EXPECT_EQ(attributes.type, NF3REG);
  EXPECT_EQ(attributes.mode, 0640u);
  EXPECT_EQ(attributes.nlink, 1u);
  EXPECT_EQ(attributes.size, 8u);
  EXPECT_NE(attributes.fileid, 0u);
  EXPECT_EQ(AttributesOf(root).type, NF3DIR);
  EXPECT_EQ(AttributesOf(root).fsid, attributes.fsid);
}

TEST_F(GetAttributesTest, RejectsAMalformedHandle) {
  EXPECT_EQ(Status(Call<NFSPROC3_GETATTR>({NoHandle()})), NFS3ERR_BADHANDLE);
  EXPECT_EQ(Status(Call<NFSPROC3_GETATTR>({nfs_fh3{}})), NFS3ERR_BADHANDLE);
  const FileHandle wrong_object{memory.exports.table().all()[0]->id(), *fs::Handle::FromBytes(AsBytes("no object"))};
  EXPECT_EQ(Status(Call<NFSPROC3_GETATTR>({ToHandle(wrong_object)})), NFS3ERR_BADHANDLE);
}

TEST_F(GetAttributesTest, ReportsAStaleHandle) {
  EXPECT_EQ(Status(Call<NFSPROC3_GETATTR>({StaleHandle()})), NFS3ERR_STALE);
  const FileHandle no_such_export{ExportId(1), *fs::Handle::FromBytes(AsBytes("object"))};
  EXPECT_EQ(Status(Call<NFSPROC3_GETATTR>({ToHandle(no_such_export)})), NFS3ERR_STALE);
}

TEST_F(SetAttributesTest, SetsTheGivenAttributesAndKeepsTheOthers) {
  const nfs_fh3 file = MakeFile("file", "contents", 0600);
  const fattr3 before = AttributesOf(file);
  const auto set = Call<NFSPROC3_SETATTR>({file, {.mode = 0100755, .gid = 27}, {}});
  ASSERT_EQ(set.status(), NFS3_OK);
  EXPECT_THAT(set.resok().obj_wcc, ShowsAChange());
  EXPECT_EQ(set.resok().obj_wcc.before->ctime, before.ctime);
  const fattr3 after = *set.resok().obj_wcc.after;
  EXPECT_EQ(after.mode, 0755u);  // only the permission bits
  EXPECT_EQ(after.gid, 27u);
  EXPECT_EQ(after.uid, before.uid);
  EXPECT_EQ(after.size, before.size);
  EXPECT_EQ(after.mtime, before.mtime);
}

TEST_F(SetAttributesTest, TruncatesAndExtendsFiles) {
  const nfs_fh3 file = MakeFile("file", "contents");
  EXPECT_EQ(Status(Call<NFSPROC3_SETATTR>({file, {.size = 3}, {}})), NFS3_OK);
  EXPECT_EQ(ReadAll(file), "con");
  EXPECT_EQ(Status(Call<NFSPROC3_SETATTR>({file, {.size = 5}, {}})), NFS3_OK);
  EXPECT_EQ(ReadAll(file), std::string("con\0\0", 5));
}

TEST_F(SetAttributesTest, SetsTimesOfTheClientOrOfTheServer) {
  const nfs_fh3 file = MakeFile("file");
  const fattr3 before = AttributesOf(file);
  const sattr3 both{.atime = set_atime(SET_TO_CLIENT_TIME, nfstime3{1, 999'999'999}),
                    .mtime = set_mtime(SET_TO_SERVER_TIME)};
  EXPECT_EQ(Status(Call<NFSPROC3_SETATTR>({file, both, {}})), NFS3_OK);
  const fattr3 after = AttributesOf(file);
  EXPECT_EQ(after.atime, (nfstime3{1, 999'999'999}));
  EXPECT_EQ(after.mtime, after.ctime);
  EXPECT_NE(after.mtime, before.mtime);
}

TEST_F(SetAttributesTest, RejectsATimeWithTooManyNanoseconds) {
  const sattr3 odd{.mtime = set_mtime(SET_TO_CLIENT_TIME, nfstime3{1, 1'000'000'000})};
  const auto set = Call<NFSPROC3_SETATTR>({MakeFile("file"), odd, {}});
  EXPECT_EQ(set.status(), NFS3ERR_INVAL);
  EXPECT_THAT(set.resfail().obj_wcc, IsUnchanged());
}

TEST_F(SetAttributesTest, RejectsASizeAboveTheMaximum) {
  const auto set = Call<NFSPROC3_SETATTR>({MakeFile("file"), {.size = uint64_t{1} << 63}, {}});
  EXPECT_EQ(set.status(), NFS3ERR_INVAL);
  EXPECT_THAT(set.resfail().obj_wcc, IsUnchanged());
}

TEST_F(SetAttributesTest, ChecksTheGuard) {
  const nfs_fh3 file = MakeFile("file");
  const nfstime3 known = AttributesOf(file).ctime;
  EXPECT_EQ(Status(Call<NFSPROC3_SETATTR>({file, {.mode = 0600}, known})), NFS3_OK);
  const auto again = Call<NFSPROC3_SETATTR>({file, {.mode = 0777}, known});
  EXPECT_EQ(again.status(), NFS3ERR_NOT_SYNC);
  EXPECT_THAT(again.resfail().obj_wcc, IsUnchanged());
  EXPECT_EQ(AttributesOf(file).mode, 0600u);
}

TEST_F(SetAttributesTest, RequiresOwnership) {
  const nfs_fh3 file = MakeFile("file");
  memory.SetUser(1000);
  const auto set = Call<NFSPROC3_SETATTR>({file, {.mode = 0777}, {}});
  EXPECT_EQ(set.status(), NFS3ERR_PERM);
  EXPECT_THAT(set.resfail().obj_wcc, IsUnchanged());
}

TEST_F(SetAttributesTest, ReturnsNoConsistencyDataForABadHandle) {
  const auto stale = Call<NFSPROC3_SETATTR>({StaleHandle(), {.mode = 0777}, {}});
  EXPECT_EQ(stale.status(), NFS3ERR_STALE);
  EXPECT_EQ(stale.resfail().obj_wcc, wcc_data{});
  EXPECT_EQ(Status(Call<NFSPROC3_SETATTR>({NoHandle(), {.mode = 0777}, {}})), NFS3ERR_BADHANDLE);
}

TEST_F(ReadOnlyAttributesTest, RejectsSettingAttributes) {
  const auto set = Call<NFSPROC3_SETATTR>({file, {.mode = 0777}, {}});
  EXPECT_EQ(set.status(), NFS3ERR_ROFS);
  EXPECT_THAT(set.resfail().obj_wcc, IsUnchanged());
}

constexpr uint32_t kAll =
    ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE | ACCESS3_EXECUTE;

TEST_F(AccessTest, ReturnsTheCallersRights) {
  const nfs_fh3 file = MakeFile("file", "", 0754);
  const auto mine = Call<NFSPROC3_ACCESS>({file, kAll});
  ASSERT_EQ(mine.status(), NFS3_OK);
  EXPECT_TRUE(mine.resok().obj_attributes);
  EXPECT_EQ(mine.resok().access, ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_EXECUTE);
  memory.SetUser(1000);
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({file, kAll}).resok().access, ACCESS3_READ);
}

TEST_F(AccessTest, ReturnsOnlyTheRequestedBits) {
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({root, ACCESS3_LOOKUP}).resok().access, ACCESS3_LOOKUP);
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({root, 0xffffffc0}).resok().access, 0u);
}

TEST_F(AccessTest, RejectsABadHandle) {
  const auto stale = Call<NFSPROC3_ACCESS>({StaleHandle(), kAll});
  EXPECT_EQ(stale.status(), NFS3ERR_STALE);
  EXPECT_FALSE(stale.resfail().obj_attributes);
}

TEST_F(ReadOnlyAttributesTest, AccessGrantsNoRightToChange) {
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({directory, kAll}).resok().access, ACCESS3_READ | ACCESS3_LOOKUP);
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({file, kAll}).resok().access & (ACCESS3_MODIFY | ACCESS3_EXTEND), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v3
