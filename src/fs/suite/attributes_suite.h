// Tests of attributes, permissions and handles.
#pragma once

#include "fs/suite/fixture.h"

namespace penstock::fs::suite {

class AttributesSuite : public FileSystemSuite {};
// Skips the test if the server cannot act as different callers.
#define PENSTOCK_NEEDS_CALLERS() \
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test"

TEST_P(AttributesSuite, NewFileIsEmptyAndHasTheRequestedMode) {
  const Attributes file = Stat(Make(root_, "file", 0640));
  EXPECT_EQ(file.type, FileType::kRegular);
  EXPECT_EQ(file.mode, 0640u);
  EXPECT_EQ(file.nlink, 1u);
  EXPECT_EQ(file.size, 0u);
  EXPECT_EQ(file.fsid, Stat(root_).fsid);
  EXPECT_NE(file.fileid, Stat(root_).fileid);
  EXPECT_GT(file.ctime.seconds, 1'500'000'000);
}

TEST_P(AttributesSuite, DirectoryHasTwoLinksAndOneMoreForEachSubdirectory) {
  const Handle directory = MakeDirectory(root_, "directory", 0750);
  EXPECT_EQ(Stat(directory).type, FileType::kDirectory);
  EXPECT_EQ(Stat(directory).mode, 0750u);
  EXPECT_EQ(Stat(directory).nlink, 2u);
  MakeDirectory(directory, "inner");
  EXPECT_EQ(Stat(directory).nlink, 3u);
}

TEST_P(AttributesSuite, NewDirectoryGetsTheRequestedSetIdAndStickyBits) {
  EXPECT_EQ(Stat(MakeDirectory(root_, "directory", 03775)).mode, 03775u);
}

TEST_P(AttributesSuite, SetsModeAndTimesAndReportsAttributesBeforeAndAfter) {
  const Handle file = Make(root_, "file");
  const Attributes before = Stat(file);
  NewAttributes values;
  values.mode = 04711;
  values.atime = {SetTime::How::kGiven, {1'000'000'000, 123'456'789}};
  const int64_t beyond_32_bits = 5'000'000'000;
  const int64_t time = std::min(beyond_32_bits, backend_->latest_time());
  values.mtime = {SetTime::How::kGiven, {time, 1}};
  const Changed<void> set = Set(file, values);
  ASSERT_TRUE(set.result);
  ExpectNoted(set.object, before, file);
  const Attributes after = Stat(file);
  EXPECT_EQ(after.mode, 04711u);
  EXPECT_EQ(after.atime, (Timestamp{1'000'000'000, 123'456'789}));
  EXPECT_EQ(after.mtime, (Timestamp{time, 1}));
  if (time == beyond_32_bits) return;
  values.mtime.time.seconds = time + 1;
  EXPECT_EQ(ErrorOf(Set(file, values).result), Error::kInvalid);
}

TEST_P(AttributesSuite, SetsServerTimeToTheCurrentTime) {
  const Handle file = Make(root_, "file");
  NewAttributes values;
  values.mtime = {SetTime::How::kGiven, {1, 0}};
  ASSERT_TRUE(Set(file, values).result);
  values.mtime = {SetTime::How::kServerTime, {}};
  ASSERT_TRUE(Set(file, values).result);
  EXPECT_GT(Stat(file).mtime.seconds, 1'500'000'000);
  EXPECT_NE(Stat(file).atime.seconds, 1);
}

TEST_P(AttributesSuite, GuardThatDoesNotMatchChangesNothing) {
  const Handle file = Make(root_, "file", 0644);
  const Attributes before = Stat(file);
  NewAttributes values;
  values.mode = 0600;
  const Changed<void> refused = Set(file, values, Timestamp{before.ctime.seconds - 1, 0});
  EXPECT_EQ(ErrorOf(refused.result), Error::kNotSync);
  ExpectNoted(refused.object, before, file);
  EXPECT_EQ(Stat(file).mode, 0644u);
  EXPECT_TRUE(Set(file, values, before.ctime).result);
  EXPECT_EQ(Stat(file).mode, 0600u);
}

TEST_P(AttributesSuite, SetsTheSizeOfRegularFilesOnly) {
  NewAttributes values;
  values.size = 10;
  EXPECT_EQ(ErrorOf(Set(MakeDirectory(root_, "directory"), values).result), Error::kIsDir);
  EXPECT_EQ(ErrorOf(Set(MakeSymlink(root_, "link", "x"), values).result), Error::kInvalid);
  values.size = UINT64_MAX;
  EXPECT_EQ(ErrorOf(Set(Make(root_, "file"), values).result), Error::kFileTooBig);
}

TEST_P(AttributesSuite, RootMayChangeTheOwner) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle file = Make(root_, "file", 04755);
  NewAttributes values;
  values.uid = 1001;
  values.gid = 1002;
  ASSERT_TRUE(Set(file, values).result);
  EXPECT_EQ(Stat(file).uid, 1001u);
  EXPECT_EQ(Stat(file).gid, 1002u);
  EXPECT_EQ(Stat(file).mode, 0755u) << "a new owner does not inherit set-id";
}

TEST_P(AttributesSuite, NewObjectsBelongToTheCallerThatCreatesThem) {
  PENSTOCK_NEEDS_CALLERS();
  caller_ = As(1001, 1002);
  for (const Handle& made : {Make(root_, "file"), MakeDirectory(root_, "directory"), MakeSymlink(root_, "link", "x")}) {
    EXPECT_EQ(Stat(made).uid, 1001u);
    EXPECT_EQ(Stat(made).gid, 1002u);
  }
}

TEST_P(AttributesSuite, OnlyTheOwnerChangesAttributesAndOnlyRootTheOwner) {
  PENSTOCK_NEEDS_CALLERS();
  caller_ = As(1001, 1001);
  const Handle file = Make(root_, "file", 0644);
  NewAttributes mode, owner, time, now, size;
  mode.mode = 0666;
  owner.uid = 1003;
  time.mtime = {SetTime::How::kGiven, {1, 0}};
  now.mtime = {SetTime::How::kServerTime, {}};
  size.size = 0;
  EXPECT_EQ(ErrorOf(Set(file, owner).result), Error::kPerm) << "the owner may not change the owner";
  caller_ = As(1003, 1003);
  EXPECT_EQ(ErrorOf(Set(file, mode).result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Set(file, owner).result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Set(file, time).result), Error::kPerm);
  EXPECT_EQ(ErrorOf(Set(file, now).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Set(file, size).result), Error::kAccess);
}

TEST_P(AttributesSuite, CallerWithWriteAccessMaySetTimesToServerTimeOnly) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle file = Make(root_, "file", 0666);
  caller_ = As(1003, 1003);
  NewAttributes now;
  now.mtime = {SetTime::How::kServerTime, {}};
  EXPECT_TRUE(Set(file, now).result);
  now.atime = {SetTime::How::kGiven, {1, 0}};
  EXPECT_EQ(ErrorOf(Set(file, now).result), Error::kPerm);
}

TEST_P(AttributesSuite, OwnerMayChangeTheGroupToOneOfItsOwn) {
  PENSTOCK_NEEDS_CALLERS();
  const uint32_t groups[] = {2001, 2002};
  caller_ = As(1001, 1001, groups);
  const Handle file = Make(root_, "file");
  NewAttributes values;
  values.gid = 2002;
  EXPECT_TRUE(Set(file, values).result);
  EXPECT_EQ(Stat(file).gid, 2002u);
  values.gid = 2003;
  EXPECT_EQ(ErrorOf(Set(file, values).result), Error::kPerm);
}

TEST_P(AttributesSuite, AccessReportsTheRightsOfTheMode) {
  PENSTOCK_NEEDS_CALLERS();
  caller_ = As(1001, 2001);
  const Handle file = Make(root_, "file", 0750);
  const Handle directory = MakeDirectory(root_, "directory", 0751);
  const auto access = [&](const Handle& object, const RequestContext& caller, AccessMask wanted = 0x3f) {
    const auto observed = Await(fs().Access(caller, object, wanted));
    EXPECT_TRUE(observed.attributes);
    return observed.result.value_or(0xffff);
  };
  const uint32_t groups[] = {5, 2001, 7};
  const RequestContext owner = As(1001, 1), member = As(1002, 1, groups), other = As(1003, 1), root = As(0, 0);
  EXPECT_EQ(access(file, owner), kAccessRead | kAccessModify | kAccessExtend | kAccessExecute);
  EXPECT_EQ(access(file, member), kAccessRead | kAccessExecute);
  EXPECT_EQ(access(file, other), 0u);
  EXPECT_EQ(access(file, root), kAccessRead | kAccessModify | kAccessExtend | kAccessExecute);
  EXPECT_EQ(access(file, owner, kAccessRead | kAccessLookup), kAccessRead) << "only requested rights are reported";
  EXPECT_EQ(access(directory, owner), kAccessRead | kAccessLookup | kAccessModify | kAccessExtend | kAccessDelete);
  EXPECT_EQ(access(directory, member), kAccessRead | kAccessLookup);
  EXPECT_EQ(access(directory, other), kAccessLookup);
}

TEST_P(AttributesSuite, DirectoryModeRestrictsAllOperations) {
  PENSTOCK_NEEDS_CALLERS();
  caller_ = As(1001, 1001);
  const Handle directory = MakeDirectory(root_, "directory", 0700);
  const Handle file = Make(directory, "file", 0600);
  caller_ = As(1002, 1002);
  const Observed<Node> looked = Lookup(directory, "file");
  EXPECT_EQ(ErrorOf(looked.result), Error::kAccess);
  EXPECT_TRUE(looked.attributes) << "a failed lookup reports the attributes of the directory";
  EXPECT_EQ(ErrorOf(Read(file, 0, 10).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Write(file, 0, "x").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Remove(directory, "file").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Remove(directory, "nothing").result), Error::kAccess) << "callers may not learn which names exist";
  EXPECT_EQ(ErrorOf(Rename(directory, "file", root_, "mine").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Link(file, directory, "mine").result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().MakeDirectory(caller_, directory, "mine", {})).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, directory, "mine", "x", {})).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, "mine", {})).result), Error::kAccess);
  Collector collector(10);
  EXPECT_EQ(ErrorOf(Await(fs().ReadDirectory(caller_, directory, {}, collector)).result), Error::kAccess);
}

TEST_P(AttributesSuite, RightsOfACallerDoNotCarryOverToTheNext) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle directory = MakeDirectory(root_, "directory", 0700);
  for (int i = 0; i < 20; ++i) {
    caller_ = As(1001 + i % 3, 1001);
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, "file", {})).result), Error::kAccess);
    caller_ = As(0, 0);
    EXPECT_TRUE(Await(fs().Create(caller_, directory, "root's", {})).result);
  }
}

TEST_P(AttributesSuite, InvalidCallerIdsDoNotBecomeRoot) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle directory = MakeDirectory(root_, "directory", 0700);
  const uint32_t groups[] = {UINT32_MAX};
  caller_ = As(UINT32_MAX, UINT32_MAX, groups);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, "file", {})).result), Error::kAccess);
  const Changed<Node> made = Await(fs().Create(caller_, root_, "file", {}));
  if (made.result) {
    EXPECT_NE(made.result->attributes.uid, 0u);
    EXPECT_NE(made.result->attributes.gid, 0u);
  }
}

TEST_P(AttributesSuite, GroupMembersHaveTheRightsOfTheGroup) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle directory = MakeDirectory(root_, "directory", 0770);
  NewAttributes values;
  values.gid = 2001;
  ASSERT_TRUE(Set(directory, values).result);
  const uint32_t groups[] = {2001};
  caller_ = As(1001, 1001, groups);
  EXPECT_TRUE(Await(fs().Create(caller_, directory, "file", {})).result);
  caller_ = As(1001, 1001);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, "other", {})).result), Error::kAccess);
}

TEST_P(AttributesSuite, StickyBitPreventsRemovalByOtherCallers) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle directory = MakeDirectory(root_, "directory", 01777);
  caller_ = As(1001, 1001);
  Make(directory, "file");
  caller_ = As(1002, 1002);
  EXPECT_EQ(ErrorOf(Remove(directory, "file").result), Error::kPerm);
  caller_ = As(1001, 1001);
  EXPECT_TRUE(Remove(directory, "file").result);
}

TEST_P(AttributesSuite, SetGroupDirectoryPassesItsGroupToNewObjects) {
  PENSTOCK_NEEDS_CALLERS();
  const Handle directory = MakeDirectory(root_, "directory");
  NewAttributes values;
  values.gid = 2001;
  values.mode = 02777;
  ASSERT_TRUE(Set(directory, values).result);
  caller_ = As(1001, 1001);
  EXPECT_EQ(Stat(Make(directory, "file")).gid, 2001u);
  const Attributes inner = Stat(MakeDirectory(directory, "inner"));
  EXPECT_EQ(inner.gid, 2001u);
  EXPECT_EQ(inner.mode & 02000u, 02000u);
}

TEST_P(AttributesSuite, RejectsMalformedHandles) {
  const Handle junk = *Handle::FromBytes(AsBytes("junk"));
  EXPECT_EQ(StatError(junk), Error::kBadHandle);
  EXPECT_EQ(StatError(Handle()), Error::kBadHandle);
  EXPECT_EQ(LookupError(junk, "x"), Error::kBadHandle);
  EXPECT_EQ(ErrorOf(Read(junk, 0, 1).result), Error::kBadHandle);
  EXPECT_FALSE(Read(junk, 0, 1).attributes);
  EXPECT_EQ(ErrorOf(Write(junk, 0, "x").result), Error::kBadHandle);
  EXPECT_EQ(ErrorOf(Rename(junk, "a", root_, "b").result), Error::kBadHandle);
  EXPECT_TRUE(Rename(junk, "a", root_, "b").to.after) << "the attributes of the valid directory are reported";
  EXPECT_EQ(ErrorOf(Link(junk, root_, "b").result), Error::kBadHandle);
}

// A handle with a changed octet is forged: the server has never given it to a client.
TEST_P(AttributesSuite, RejectsForgedHandles) {
  const Handle file = Make(root_, "file");
  for (size_t i = 0; i < file.size(); ++i) {
    std::vector<std::byte> bytes(file.bytes().begin(), file.bytes().end());
    bytes[i] ^= std::byte{0x55};
    EXPECT_TRUE(StatError(*Handle::FromBytes(bytes))) << "octet " << i;
  }
  EXPECT_TRUE(StatError(*Handle::FromBytes(file.bytes().first(file.size() - 1))));
}

TEST_P(AttributesSuite, HandleIsTheSameByEveryPathToTheObject) {
  const Handle directory = MakeDirectory(root_, "directory");
  const Handle file = Make(directory, "file");
  EXPECT_EQ(Lookup(directory, "file").result->handle, file);
  ASSERT_TRUE(Link(file, root_, "other").result);
  EXPECT_EQ(Lookup(root_, "other").result->handle, file);
  EXPECT_EQ(Lookup(directory, "..").result->handle, root_);
  EXPECT_EQ(Lookup(directory, ".").result->handle, directory);
}

TEST_P(AttributesSuite, HandleSurvivesRenames) {
  const Handle from = MakeDirectory(root_, "from");
  const Handle to = MakeDirectory(root_, "to");
  const Handle directory = MakeDirectory(from, "directory");
  const Handle file = Make(directory, "file");
  ASSERT_TRUE(Write(file, 0, "text").result);
  ASSERT_TRUE(Rename(from, "directory", to, "moved").result);
  ASSERT_TRUE(Rename(directory, "file", directory, "renamed").result);
  EXPECT_EQ(ReadText(file), "text");
  EXPECT_EQ(Lookup(directory, "renamed").result->handle, file);
  EXPECT_EQ(Lookup(directory, "..").result->handle, to);
}

TEST_P(AttributesSuite, HandleSurvivesRenamesAndARestart) {
  const Handle from = MakeDirectory(root_, "from");
  const Handle directory = MakeDirectory(from, "directory");
  const Handle file = Make(directory, "file");
  const Handle twice = Make(root_, "twice");
  ASSERT_TRUE(Link(twice, directory, "second").result);
  ASSERT_TRUE(Remove(root_, "twice").result);
  ASSERT_TRUE(Write(file, 0, "text").result);
  ASSERT_TRUE(Rename(from, "directory", root_, "moved").result);
  ASSERT_TRUE(Rename(directory, "file", from, "renamed").result);
  if (!backend_->Restart()) GTEST_SKIP() << "the files do not survive the process";
  EXPECT_EQ(fs().Root(), root_);
  EXPECT_EQ(ReadText(file), "text");
  EXPECT_EQ(Stat(twice).nlink, 1u);
  EXPECT_EQ(Lookup(directory, "second").result->handle, twice);
  EXPECT_EQ(Lookup(from, "renamed").result->handle, file);
  EXPECT_EQ(Lookup(directory, "..").result->handle, root_);
}

TEST_P(AttributesSuite, HandlesOfRemovedObjectsAreStale) {
  const Handle file = Make(root_, "file");
  const Handle directory = MakeDirectory(root_, "directory");
  const Handle replaced = Make(root_, "replaced");
  Make(root_, "new");
  ASSERT_TRUE(Remove(root_, "file").result);
  ASSERT_TRUE(RemoveDirectory(root_, "directory").result);
  ASSERT_TRUE(Rename(root_, "new", root_, "replaced").result);
  const auto expect_stale = [&] {
    for (const Handle& gone : {file, directory, replaced}) EXPECT_EQ(StatError(gone), Error::kStale);
    EXPECT_EQ(LookupError(directory, "x"), Error::kStale);
    EXPECT_EQ(ErrorOf(Read(file, 0, 1).result), Error::kStale);
    EXPECT_EQ(ErrorOf(Write(file, 0, "x").result), Error::kStale);
    EXPECT_EQ(ErrorOf(Await(fs().Commit(caller_, file)).result), Error::kStale);
    EXPECT_EQ(ErrorOf(Set(file, {}).result), Error::kStale);
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, "x", {})).result), Error::kStale);
    EXPECT_EQ(ErrorOf(Link(file, root_, "again").result), Error::kStale);
  };
  expect_stale();
  // The file system may reuse the inode numbers for the next objects.
  Make(root_, "file");
  MakeDirectory(root_, "directory");
  expect_stale();
  if (backend_->Restart()) expect_stale();
}

TEST_P(AttributesSuite, FileExistsUntilItsLastNameIsRemoved) {
  const Handle file = Make(root_, "one");
  ASSERT_TRUE(Link(file, root_, "two").result);
  ASSERT_TRUE(Remove(root_, "one").result);
  EXPECT_EQ(Stat(file).nlink, 1u);
  ASSERT_TRUE(Remove(root_, "two").result);
  EXPECT_EQ(StatError(file), Error::kStale);
}

TEST_P(AttributesSuite, ReportsSpaceAndLimits) {
  const Observed<Space> space = Await(fs().GetSpace(caller_, root_));
  ASSERT_TRUE(space.result && space.attributes);
  EXPECT_GT(space.result->total_bytes, 0u);
  EXPECT_LE(space.result->free_bytes, space.result->total_bytes);
  EXPECT_LE(space.result->available_bytes, space.result->free_bytes);
  EXPECT_GE(fs().GetProperties().name_max, 255u);
  EXPECT_GE(fs().GetProperties().link_max, 100u);
}

}  // namespace penstock::fs::suite
