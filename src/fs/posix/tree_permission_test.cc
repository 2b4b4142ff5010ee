// What callers may do to a server that acts as its own user for all of them, and checks their rights itself
// (CallerRights::kChecked). The tests run as any user: that user is the server's.
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>

#include "fs/acl_octets.h"
#include "fs/posix/posix_test.h"

namespace penstock::fs {
namespace {

using posix::CallerRights;
using posix::HandleMethod;
using posix::PosixBackend;
using suite::ErrorOf;

constexpr uint32_t kOther = 4001;
constexpr uint32_t kThird = 4002;

suite::Parameter On(std::string name, const char* where, CallerRights rights) {
  posix::Options options = posix::With(HandleMethod::kBest);
  options.rights = rights;
  return {std::move(name), [where, options] { return std::make_unique<PosixBackend>(where, options); }};
}

class CheckedCallers : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    caller_ = Other();
  }
  RequestContext Owner() { return As(::geteuid(), ::getegid()); }
  RequestContext Other() { return As(kOther, kOther); }
  // A file or a directory that the server's user has made itself.
  Handle File(std::string_view name, mode_t mode, std::string_view text = "octets") {
    WriteFile(exported() / name, text);
    return Found(name, mode);
  }
  Handle Directory(std::string_view name, mode_t mode) {
    std::filesystem::create_directory(exported() / name);
    return Found(name, mode);
  }
  std::optional<Error> CreateError(const Handle& directory, std::string_view name, uint32_t mode = 0600,
                                   CreateMode how_mode = CreateMode::kGuarded) {
    CreateHow how;
    how.mode = how_mode;
    how.attributes.mode = mode;
    return ErrorOf(Await(fs().Create(caller_, directory, name, how)).result);
  }
  std::optional<Error> SetError(const Handle& object, const NewAttributes& values) {
    return ErrorOf(Set(object, values).result);
  }
  std::optional<Error> ReadError(const Handle& file) { return ErrorOf(Read(file, 0, 100).result); }
  std::optional<Error> WriteError(const Handle& file) { return ErrorOf(Write(file, 0, "other").result); }
  AccessMask Access(const Handle& object) { return *Await(fs().Access(caller_, object, 0x3f)).result; }

  static NewAttributes Mode(uint32_t mode) {
    NewAttributes values;
    values.mode = mode;
    return values;
  }
  static NewAttributes Size(uint64_t size) {
    NewAttributes values;
    values.size = size;
    return values;
  }
  static NewAttributes Times(SetTime::How how) {
    NewAttributes values;
    values.atime = values.mtime = {how, {1'000'000, 0}};
    return values;
  }

 private:
  Handle Found(std::string_view name, mode_t mode) {
    EXPECT_EQ(::chmod((exported() / name).c_str(), mode), 0);
    const auto found = Lookup(root_, name);
    EXPECT_TRUE(found.result);
    return found.result ? found.result->handle : Handle();
  }
};

TEST_P(CheckedCallers, ModeBitsDecideAboutData) {
  const Handle closed = File("closed", 0600);
  const Handle readable = File("readable", 0604);
  const Handle writable = File("writable", 0602);
  const Handle program = File("program", 0701);
  EXPECT_EQ(ReadError(closed), Error::kAccess);
  EXPECT_EQ(WriteError(closed), Error::kAccess);
  EXPECT_EQ(ReadError(readable), std::nullopt);
  EXPECT_EQ(WriteError(readable), Error::kAccess);
  EXPECT_EQ(ReadError(writable), Error::kAccess);
  EXPECT_EQ(WriteError(writable), std::nullopt);
  EXPECT_EQ(ReadError(program), std::nullopt);  // to run it
  EXPECT_EQ(Access(closed), 0u);
  EXPECT_EQ(Access(readable), kAccessRead);
  EXPECT_EQ(Access(writable), kAccessModify | kAccessExtend);
  EXPECT_EQ(Access(program), kAccessExecute);
  EXPECT_EQ(SetError(readable, Size(1)), Error::kAccess);
  EXPECT_EQ(SetError(writable, Size(1)), std::nullopt);
  EXPECT_EQ(ErrorOf(Await(fs().Seek(caller_, closed, 0, SeekWhat::kData)).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().Allocate(caller_, closed, 0, 10)).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().Copy(caller_, closed, 0, writable, 0, 10)).result), Error::kAccess);
}

TEST_P(CheckedCallers, TheServersUserIsTheOwner) {
  const Handle file = File("file", 0400);
  caller_ = Owner();
  EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(SetError(file, Mode(0000)), std::nullopt);
  if (::geteuid() == 0) EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(SetError(file, Mode(0600)), std::nullopt);
  EXPECT_EQ(WriteError(file), std::nullopt);
  caller_ = As(0, 0);  // root that was not squashed
  EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(WriteError(file), std::nullopt);
}

TEST_P(CheckedCallers, GroupsOfTheCallerCount) {
  const Handle file = File("file", 0640);
  const std::array<uint32_t, 1> groups = {Stat(file).gid};
  EXPECT_EQ(ReadError(file), Error::kAccess);
  caller_ = As(kOther, kOther, groups);
  EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(WriteError(file), Error::kAccess);
}

TEST_P(CheckedCallers, DirectoriesAreSearchedListedAndChangedByTheirModes) {
  const Handle closed = Directory("closed", 0700);
  const Handle listed = Directory("listed", 0704);
  const Handle searched = Directory("searched", 0701);
  const Handle writable = Directory("writable", 0702);
  const Handle open = Directory("open", 0707);
  for (const char* name : {"closed", "listed", "searched", "writable", "open"}) {
    WriteFile(exported() / name / "file", "octets");
  }
  EXPECT_EQ(LookupError(closed, "file"), Error::kAccess);
  EXPECT_EQ(LookupError(listed, "file"), Error::kAccess);
  EXPECT_EQ(LookupError(searched, "file"), std::nullopt);
  suite::Collector entries(100);
  EXPECT_EQ(ErrorOf(Await(fs().ReadDirectory(caller_, searched, {}, entries)).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().ReadDirectory(caller_, listed, {}, entries)).result), std::nullopt);

  for (const Handle& each : {closed, listed, searched, writable}) {
    EXPECT_EQ(CreateError(each, "new"), Error::kAccess);
    EXPECT_EQ(ErrorOf(Await(fs().MakeDirectory(caller_, each, "new", {})).result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, each, "new", "to", {})).result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Await(fs().MakeNode(caller_, each, "new", {FileType::kFifo, {}}, {})).result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Remove(each, "file").result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Rename(each, "file", open, "moved").result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Rename(open, "file", each, "moved").result), Error::kAccess);
    EXPECT_EQ(ErrorOf(Rename(open, "file", each, "file").result), Error::kAccess);
  }
  EXPECT_EQ(CreateError(searched, "file"), Error::kExist);
  EXPECT_EQ(ErrorOf(Remove(searched, "missing").result), Error::kNoEnt);
  EXPECT_EQ(CreateError(open, "new"), std::nullopt);
  EXPECT_EQ(ErrorOf(Rename(open, "new", open, "moved").result), std::nullopt);
  EXPECT_EQ(ErrorOf(Remove(open, "moved").result), std::nullopt);
  EXPECT_EQ(ErrorOf(Remove(open, "file").result), std::nullopt);
}

TEST_P(CheckedCallers, ExistingFileIsTruncatedByThoseWhoMayWriteIt) {
  File("closed", 0600);
  File("writable", 0606);
  CreateHow how;
  how.mode = CreateMode::kUnchecked;
  how.attributes.size = 0;
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, "closed", how)).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, "writable", how)).result), std::nullopt);
  EXPECT_EQ(std::filesystem::file_size(exported() / "closed"), 6u);
  EXPECT_EQ(std::filesystem::file_size(exported() / "writable"), 0u);
}

TEST_P(CheckedCallers, StickyDirectoryKeepsFilesOfOthers) {
  const Handle sticky = Directory("sticky", 01777);
  WriteFile(exported() / "sticky" / "file", "octets");
  EXPECT_EQ(ErrorOf(Remove(sticky, "file").result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Rename(sticky, "file", sticky, "moved").result), Error::kPerm);
  EXPECT_EQ(CreateError(sticky, "mine"), std::nullopt);
  EXPECT_EQ(ErrorOf(Rename(sticky, "mine", sticky, "file").result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Remove(sticky, "mine").result), std::nullopt);
  caller_ = Owner();
  EXPECT_EQ(ErrorOf(Remove(sticky, "file").result), std::nullopt);
}

TEST_P(CheckedCallers, OnlyADirectoryThatTheCallerMayWriteMovesToAnother) {
  const Handle to = Directory("to", 0707);
  Directory("closed", 0755);
  Directory("open", 0757);
  EXPECT_EQ(ErrorOf(Rename(root_, "closed", to, "closed").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Rename(root_, "closed", root_, "renamed").result), std::nullopt);
  EXPECT_EQ(ErrorOf(Rename(root_, "open", to, "open").result), std::nullopt);
}

TEST_P(CheckedCallers, OnlyOwnersSetAttributes) {
  const Handle file = File("file", 0606);
  EXPECT_EQ(SetError(file, Mode(0666)), Error::kPerm);
  EXPECT_EQ(SetError(file, Times(SetTime::How::kGiven)), Error::kPerm);
  EXPECT_EQ(SetError(file, Times(SetTime::How::kServerTime)), std::nullopt);
  NewAttributes owner;
  owner.uid = kOther;
  EXPECT_EQ(SetError(file, owner), Error::kPerm);
  NewAttributes group;
  group.gid = kOther;
  EXPECT_EQ(SetError(file, group), Error::kPerm);
  EXPECT_EQ(SetError(File("closed", 0600), Times(SetTime::How::kServerTime)), Error::kAccess);
  NewAcls acls;
  acls.access = AclOfMode(0666);
  EXPECT_EQ(ErrorOf(Await(fs().SetAcls(caller_, file, acls)).result), Error::kPerm);
}

TEST_P(CheckedCallers, OthersMakeNoLinksToFilesThatTheyMayNotChange) {
  EXPECT_EQ(ErrorOf(Link(File("closed", 0600), root_, "link").result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Link(File("readable", 0604), root_, "link").result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Link(File("open", 0606), root_, "link").result), std::nullopt);
}

TEST_P(CheckedCallers, ExtendedAttributesNeedTheRightsToTheData) {
  if (!fs().GetProperties().xattrs) GTEST_SKIP() << "this file system has no extended attributes";
  const Handle closed = File("closed", 0600);
  const Handle open = File("open", 0606);
  for (const char* name : {"closed", "open"}) {
    ASSERT_EQ(::setxattr((exported() / name).c_str(), "user.name", "value", 5, 0), 0);
  }
  const auto set = [&](const Handle& file) {
    return ErrorOf(
        Await(fs().SetXattr(caller_, file, "name", AsBytes(std::string_view("x")), XattrMode::kEither)).result);
  };
  EXPECT_EQ(ErrorOf(Await(fs().GetXattr(caller_, closed, "name")).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().ListXattrs(caller_, closed)).result), Error::kAccess);
  EXPECT_EQ(set(closed), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().RemoveXattr(caller_, closed, "name")).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().GetXattr(caller_, open, "name")).result), std::nullopt);
  EXPECT_EQ(set(open), std::nullopt);
  EXPECT_EQ(ErrorOf(Await(fs().RemoveXattr(caller_, open, "name")).result), std::nullopt);
  const Handle sticky = Directory("sticky", 01777);
  EXPECT_EQ(set(sticky), Error::kPerm);
}

TEST_P(CheckedCallers, AccessControlListsDecide) {
  if (!fs().GetProperties().acls) GTEST_SKIP() << "this file system has no access control lists";
  const Handle file = File("file", 0600);
  EXPECT_EQ(ReadError(file), Error::kAccess);
  const Acl acl = {{AclTag::kOwner, 0, 6},
                   {AclTag::kUser, kOther, 4},
                   {AclTag::kOwningGroup, 0, 0},
                   {AclTag::kMask, 0, 6},
                   {AclTag::kOther, 0, 0}};
  const auto octets = OctetsOfAcl(acl);
  ASSERT_EQ(::setxattr((exported() / "file").c_str(), kAccessAcl, octets.data(), octets.size(), 0), 0);
  EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(WriteError(file), Error::kAccess);
  caller_ = As(kThird, kThird);
  EXPECT_EQ(ReadError(file), Error::kAccess);
}

// The server's user owns what callers create, but the creator goes on as if it did.
TEST_P(CheckedCallers, CreatorOfAFileCountsAsItsOwner) {
  const Handle file = Make(root_, "file", 0400);
  EXPECT_EQ(Stat(file).uid, ::geteuid());
  EXPECT_EQ(WriteError(file), std::nullopt);
  EXPECT_EQ(ReadText(file), "other");
  EXPECT_EQ(SetError(file, Times(SetTime::How::kGiven)), std::nullopt);
  EXPECT_EQ(SetError(file, Mode(0600)), std::nullopt);
  EXPECT_EQ(Access(file), kAccessRead | kAccessModify | kAccessExtend);
  caller_ = As(kThird, kThird);
  EXPECT_EQ(ReadError(file), Error::kAccess);
  EXPECT_EQ(WriteError(file), Error::kAccess);
  EXPECT_EQ(SetError(file, Mode(0666)), Error::kPerm);
}

TEST_P(CheckedCallers, CreatorOfADirectoryFillsIt) {
  const Handle directory = MakeDirectory(root_, "directory", 0700);
  EXPECT_EQ(CreateError(directory, "file"), std::nullopt);
  caller_ = As(kThird, kThird);
  EXPECT_EQ(CreateError(directory, "another"), Error::kAccess);
  EXPECT_EQ(LookupError(directory, "file"), Error::kAccess);
}

TEST_P(CheckedCallers, ExclusivelyCreatedFileGetsItsAttributesFromItsCreator) {
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.verifier = CreateVerifier(0x0123456789abcdef);
  const auto made = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(made.result);
  NewAttributes values = Times(SetTime::How::kServerTime);
  values.mode = 0644;
  // Whoever knows the verifier, which the times show, is not the creator.
  caller_ = As(kThird, kThird);
  EXPECT_TRUE(Await(fs().Create(caller_, root_, "file", how)).result);
  EXPECT_NE(SetError(made.result->handle, values), std::nullopt);
  caller_ = Other();
  EXPECT_EQ(SetError(made.result->handle, values), std::nullopt);
}

// Such a file would run with the rights of the server's user.
TEST_P(CheckedCallers, NobodyElseMakesProgramsWithSetIdBits) {
  EXPECT_EQ(CreateError(root_, "program", 04755), Error::kPerm);
  EXPECT_EQ(CreateError(root_, "program", 02755), Error::kPerm);
  EXPECT_EQ(LookupError(root_, "program"), Error::kNoEnt);
  const Handle file = Make(root_, "file", 0755);
  EXPECT_EQ(SetError(file, Mode(04755)), Error::kPerm);
  const Handle written = File("written", 04707);
  EXPECT_EQ(WriteError(written), std::nullopt);
  EXPECT_EQ(Stat(written).mode, 0707u);
  const Handle truncated = File("truncated", 04707);
  EXPECT_EQ(SetError(truncated, Size(1)), std::nullopt);
  EXPECT_EQ(Stat(truncated).mode, 0707u);
}

INSTANTIATE_TEST_SUITE_P(, CheckedCallers,
                         testing::Values(On("Disk", posix::kDisk, CallerRights::kChecked),
                                         On("Memory", posix::kMemory, CallerRights::kChecked)),
                         suite::NameOf);

using CallersOfServer = CheckedCallers;

TEST_P(CallersOfServer, DoWhatTheServersUserMayDo) {
  const Handle file = File("file", 0600);
  EXPECT_EQ(ReadError(file), std::nullopt);
  EXPECT_EQ(WriteError(file), std::nullopt);
  EXPECT_EQ(SetError(file, Mode(0644)), std::nullopt);
  EXPECT_EQ(CreateError(Directory("closed", 0700), "new"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(, CallersOfServer, testing::Values(On("Disk", posix::kDisk, CallerRights::kOfServer)),
                         suite::NameOf);

}  // namespace
}  // namespace penstock::fs
