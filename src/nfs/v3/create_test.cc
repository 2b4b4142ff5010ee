#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using MakeDirectoryTest = NfsTest;
using MakeSymlinkTest = NfsTest;
using MakeNodeTest = NfsTest;
using ReadOnlyCreateTest = ReadOnlyTest;

constexpr createverf3 kVerifier{std::byte{1}, std::byte{2}, std::byte{3}};
constexpr createverf3 kOtherVerifier{std::byte{9}};

class CreateTest : public NfsTest {
 protected:
  CREATE3res Create(std::string_view name, createmode3 mode, const sattr3& attributes = {}) {
    return Call<NFSPROC3_CREATE>({{root, name}, createhow3(mode, attributes)});
  }
  CREATE3res CreateExclusively(std::string_view name, const createverf3& verifier) {
    return Call<NFSPROC3_CREATE>({{root, name}, createhow3(EXCLUSIVE, verifier)});
  }
};

TEST_F(CreateTest, MakesARegularFile) {
  const auto made = Create("file", UNCHECKED, {.mode = 0640, .uid = 1000});
  ASSERT_EQ(made.status(), NFS3_OK);
  EXPECT_EQ(made.resok().obj_attributes->type, NF3REG);
  EXPECT_EQ(made.resok().obj_attributes->mode, 0640u);
  EXPECT_EQ(made.resok().obj_attributes->uid, 1000u);
  EXPECT_THAT(made.resok().dir_wcc, ShowsAChange());
  EXPECT_EQ(AttributesOf(*made.resok().obj), *made.resok().obj_attributes);
}

TEST_F(CreateTest, UncheckedAcceptsAnExistingFile) {
  const nfs_fh3 file = MakeFile("file", "contents", 0600);
  const auto same = Create("file", UNCHECKED, {.mode = 0777});
  ASSERT_EQ(same.status(), NFS3_OK);
  EXPECT_EQ(*same.resok().obj, file);
  EXPECT_EQ(ReadAll(file), "contents");
  EXPECT_EQ(Create("file", UNCHECKED, {.size = 0}).status(), NFS3_OK);
  EXPECT_EQ(ReadAll(file), "");
}

TEST_F(CreateTest, GuardedRejectsAnExistingFile) {
  MakeFile("file");
  const auto again = Create("file", GUARDED);
  EXPECT_EQ(again.status(), NFS3ERR_EXIST);
  EXPECT_THAT(again.resfail().dir_wcc, IsUnchanged());
}

TEST_F(CreateTest, ExclusiveAcceptsTheFileOfTheSameVerifier) {
  const auto made = CreateExclusively("file", kVerifier);
  ASSERT_EQ(made.status(), NFS3_OK);
  const auto again = CreateExclusively("file", kVerifier);  // a retry after a lost reply
  ASSERT_EQ(again.status(), NFS3_OK);
  EXPECT_EQ(again.resok().obj, made.resok().obj);
  EXPECT_EQ(CreateExclusively("file", kOtherVerifier).status(), NFS3ERR_EXIST);
  MakeFile("other");
  EXPECT_EQ(CreateExclusively("other", kVerifier).status(), NFS3ERR_EXIST);
}

TEST_F(CreateTest, RejectsDotAndDotDotAsExisting) {
  for (const char* name : {".", ".."}) {
    EXPECT_EQ(Create(name, GUARDED).status(), NFS3ERR_EXIST) << name;
    EXPECT_EQ(CreateExclusively(name, kVerifier).status(), NFS3ERR_EXIST) << name;
  }
}

TEST_F(CreateTest, RejectsInvalidNames) {
  EXPECT_EQ(Create("", UNCHECKED).status(), NFS3ERR_ACCES);
  EXPECT_EQ(Create("a/b", UNCHECKED).status(), NFS3ERR_ACCES);
  EXPECT_EQ(Create(std::string(256, 'x'), UNCHECKED).status(), NFS3ERR_NAMETOOLONG);
  EXPECT_THAT(Create("", UNCHECKED).resfail().dir_wcc, IsUnchanged());
}

TEST_F(CreateTest, RejectsATimeWithTooManyNanoseconds) {
  const auto odd = Create("file", UNCHECKED, {.atime = set_atime(SET_TO_CLIENT_TIME, nfstime3{1, 1'000'000'000})});
  EXPECT_EQ(odd.status(), NFS3ERR_INVAL);
  EXPECT_THAT(odd.resfail().dir_wcc, IsUnchanged());
  EXPECT_EQ(StatusOfLookup("file"), NFS3ERR_NOENT);
}

TEST_F(CreateTest, RequiresADirectoryThatTheCallerMayChange) {
  const CREATE3args in_file{{MakeFile("file"), "name"}, createhow3(UNCHECKED, sattr3{})};
  EXPECT_EQ(Call<NFSPROC3_CREATE>(in_file).status(), NFS3ERR_NOTDIR);
  const CREATE3args in_nothing{{StaleHandle(), "name"}, createhow3(UNCHECKED, sattr3{})};
  EXPECT_EQ(Call<NFSPROC3_CREATE>(in_nothing).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_CREATE>(in_nothing).resfail().dir_wcc, wcc_data{});
  memory.SetUser(1000);
  const auto denied = Create("other", UNCHECKED);
  EXPECT_EQ(denied.status(), NFS3ERR_ACCES);
  EXPECT_THAT(denied.resfail().dir_wcc, IsUnchanged());
}

TEST_F(MakeDirectoryTest, MakesADirectory) {
  const auto made = Call<NFSPROC3_MKDIR>({{root, "directory"}, {.mode = 01777}});
  ASSERT_EQ(made.status(), NFS3_OK);
  EXPECT_EQ(made.resok().obj_attributes->type, NF3DIR);
  EXPECT_EQ(made.resok().obj_attributes->mode, 01777u);
  EXPECT_EQ(made.resok().obj_attributes->nlink, 2u);
  EXPECT_THAT(made.resok().dir_wcc, ShowsAChange());
  EXPECT_EQ(made.resok().dir_wcc.after->nlink, 3u);
  EXPECT_EQ((Call<NFSPROC3_LOOKUP>({{root, "directory"}}).resok().object), *made.resok().obj);
}

TEST_F(MakeDirectoryTest, RejectsAnExistingName) {
  MakeFile("file");
  for (const char* name : {"file", ".", ".."}) {
    const auto again = Call<NFSPROC3_MKDIR>({{root, name}, {}});
    EXPECT_EQ(again.status(), NFS3ERR_EXIST) << name;
    EXPECT_THAT(again.resfail().dir_wcc, IsUnchanged());
  }
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{root, ""}, {}}).status()), NFS3ERR_ACCES);
}

TEST_F(MakeSymlinkTest, KeepsThePathUnchanged) {
  const auto made = Call<NFSPROC3_SYMLINK>({{root, "link"}, {{}, xdr::Payload<>::Borrowed("../a//b/.")}});
  ASSERT_EQ(made.status(), NFS3_OK);
  EXPECT_EQ(made.resok().obj_attributes->type, NF3LNK);
  EXPECT_THAT(made.resok().dir_wcc, ShowsAChange());
  EXPECT_EQ((Call<NFSPROC3_READLINK>({*made.resok().obj}).resok().data.text()), "../a//b/.");
}

TEST_F(MakeSymlinkTest, RejectsAnExistingName) {
  MakeFile("file");
  for (const char* name : {"file", ".", ".."}) {
    const auto again = Call<NFSPROC3_SYMLINK>({{root, name}, {{}, xdr::Payload<>::Borrowed("target")}});
    EXPECT_EQ(again.status(), NFS3ERR_EXIST) << name;
    EXPECT_THAT(again.resfail().dir_wcc, IsUnchanged());
  }
}

TEST_F(MakeNodeTest, MakesPipesSocketsAndDevices) {
  for (const ftype3 type : {NF3FIFO, NF3SOCK}) {
    const auto made = Call<NFSPROC3_MKNOD>({{root, XdrName(type)}, mknoddata3(type, sattr3{.mode = 0600})});
    ASSERT_EQ(made.status(), NFS3_OK);
    EXPECT_EQ(made.resok().obj_attributes->type, type);
    EXPECT_THAT(made.resok().dir_wcc, ShowsAChange());
  }
  for (const ftype3 type : {NF3CHR, NF3BLK}) {
    const devicedata3 device{{.mode = 0600}, {.specdata1 = 8, .specdata2 = 17}};
    const auto made = Call<NFSPROC3_MKNOD>({{root, XdrName(type)}, mknoddata3(type, device)});
    ASSERT_EQ(made.status(), NFS3_OK);
    EXPECT_EQ(made.resok().obj_attributes->type, type);
    EXPECT_EQ(made.resok().obj_attributes->rdev, (specdata3{8, 17}));
  }
}

TEST_F(MakeNodeTest, RejectsTypesWithTheirOwnProcedures) {
  for (const ftype3 type : {NF3REG, NF3DIR, NF3LNK}) {
    const auto made = Call<NFSPROC3_MKNOD>({{root, "name"}, mknoddata3(type)});
    EXPECT_EQ(made.status(), NFS3ERR_BADTYPE);
    EXPECT_THAT(made.resfail().dir_wcc, IsUnchanged());
  }
}

TEST_F(MakeNodeTest, OnlyRootMakesDevices) {
  const nfs_fh3 directory = MakeDirectory("shared", 0777);
  memory.SetUser(1000);
  const auto made = Call<NFSPROC3_MKNOD>({{directory, "disk"}, mknoddata3(NF3BLK, devicedata3{})});
  EXPECT_EQ(made.status(), NFS3ERR_PERM);
  EXPECT_EQ((Call<NFSPROC3_MKNOD>({{directory, "pipe"}, mknoddata3(NF3FIFO, sattr3{})}).status()), NFS3_OK);
}

TEST_F(ReadOnlyCreateTest, RejectsMakingObjects) {
  const diropargs3 where{directory, "name"};
  const auto expect_refused = [](const auto& results) {
    EXPECT_EQ(results.status(), NFS3ERR_ROFS);
    EXPECT_THAT(results.resfail().dir_wcc, IsUnchanged());
  };
  expect_refused(Call<NFSPROC3_CREATE>({where, createhow3(UNCHECKED, sattr3{})}));
  expect_refused(Call<NFSPROC3_CREATE>({where, createhow3(EXCLUSIVE, kVerifier)}));
  expect_refused(Call<NFSPROC3_MKDIR>({where, {}}));
  expect_refused(Call<NFSPROC3_SYMLINK>({where, {{}, xdr::Payload<>::Borrowed("target")}}));
  expect_refused(Call<NFSPROC3_MKNOD>({where, mknoddata3(NF3FIFO, sattr3{})}));
}

}  // namespace
}  // namespace penstock::nfs::v3
