// Tests of looking up, creating, renaming and removing names.
#pragma once

#include <chrono>
#include <thread>

#include "fs/suite/fixture.h"

namespace penstock::fs::suite {

class NamesSuite : public FileSystemSuite {};

inline CreateHow HowOf(CreateMode mode, uint64_t verifier = 0) {
  CreateHow how;
  how.mode = mode;
  how.verifier = CreateVerifier(verifier);
  return how;
}

TEST_P(NamesSuite, LookupFindsExistingNamesOnly) {
  const Handle file = Make(root_, "file");
  const Observed<Node> found = Lookup(root_, "file");
  ASSERT_TRUE(found.result);
  EXPECT_EQ(found.result->handle, file);
  EXPECT_EQ(found.result->attributes.fileid, Stat(file).fileid);
  EXPECT_EQ(found.attributes->fileid, Stat(root_).fileid);
  const Observed<Node> missing = Lookup(root_, "missing");
  EXPECT_EQ(ErrorOf(missing.result), Error::kNoEnt);
  EXPECT_TRUE(missing.attributes);
  EXPECT_EQ(LookupError(file, "x"), Error::kNotDir);
}

TEST_P(NamesSuite, RootIsItsOwnParent) {
  EXPECT_EQ(Lookup(root_, "..").result->handle, root_);
  EXPECT_EQ(Lookup(root_, "..").result->attributes.fileid, Stat(root_).fileid);
  EXPECT_EQ(Lookup(root_, ".").result->handle, root_);
}

TEST_P(NamesSuite, RejectsNamesThatAreNotOneComponent) {
  Make(MakeDirectory(root_, "a"), "b");
  for (const std::string_view bad : {std::string_view(), std::string_view("a/b"), std::string_view("/"),
                                     std::string_view("../a"), std::string_view("a\0b", 3)}) {
    EXPECT_EQ(LookupError(root_, bad), Error::kBadName);
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, bad, {})).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Await(fs().MakeDirectory(caller_, root_, bad, {})).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, root_, bad, "x", {})).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Await(fs().MakeNode(caller_, root_, bad, {}, {})).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Remove(root_, bad).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(RemoveDirectory(root_, bad).result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Rename(root_, bad, root_, "c").result), Error::kBadName);
    EXPECT_EQ(ErrorOf(Rename(root_, "a", root_, bad).result), Error::kBadName);
  }
}

TEST_P(NamesSuite, RejectsNamesThatAreTooLong) {
  const std::string longest(255, 'n'), longer(256, 'n');
  const Handle file = Make(root_, longest);
  EXPECT_EQ(Lookup(root_, longest).result->handle, file);
  EXPECT_EQ(LookupError(root_, longer), Error::kNameTooLong);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, longer, {})).result), Error::kNameTooLong);
  EXPECT_EQ(ErrorOf(Rename(root_, longest, root_, longer).result), Error::kNameTooLong);
}

TEST_P(NamesSuite, AcceptsAnyOctetsInNames) {
  const std::string name = "\xff\xfe \n\x01*\\";
  const Handle file = Make(root_, name);
  EXPECT_EQ(Lookup(root_, name).result->handle, file);
  EXPECT_EQ(CountNames(List(root_)).count(name), 1u);
}

TEST_P(NamesSuite, RejectsDotAndDotDotInChanges) {
  const Handle directory = MakeDirectory(root_, "directory");
  Make(directory, "file");
  for (const char* dots : {".", ".."}) {
    for (const CreateMode mode : {CreateMode::kUnchecked, CreateMode::kGuarded, CreateMode::kExclusive}) {
      EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, directory, dots, HowOf(mode))).result), Error::kExist);
    }
    EXPECT_EQ(ErrorOf(Await(fs().MakeDirectory(caller_, directory, dots, {})).result), Error::kExist);
    EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, directory, dots, "x", {})).result), Error::kExist);
    EXPECT_EQ(ErrorOf(Await(fs().MakeNode(caller_, directory, dots, {}, {})).result), Error::kExist);
    EXPECT_EQ(ErrorOf(Remove(directory, dots).result), Error::kIsDir);
    EXPECT_EQ(ErrorOf(Rename(directory, dots, root_, "x").result), Error::kInvalid);
    EXPECT_EQ(ErrorOf(Rename(directory, "file", root_, dots).result), Error::kInvalid);
  }
  EXPECT_EQ(ErrorOf(RemoveDirectory(directory, ".").result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(RemoveDirectory(directory, "..").result), Error::kExist);
}

TEST_P(NamesSuite, ReportsTheDirectoryBeforeAndAfterAChange) {
  const Handle directory = MakeDirectory(root_, "directory");
  Attributes before = Stat(directory);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto expect_noted = [&](const WeakCacheData& noted) {
    ExpectNoted(noted, before, directory);
    EXPECT_NE(noted.after->change, noted.before->change);
    before = Stat(directory);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the clock of some file systems is coarse
  };
  expect_noted(Await(fs().Create(caller_, directory, "file", {})).object);
  expect_noted(Await(fs().MakeDirectory(caller_, directory, "inner", {})).object);
  expect_noted(Await(fs().MakeSymlink(caller_, directory, "link", "x", {})).object);
  expect_noted(Await(fs().MakeNode(caller_, directory, "fifo", {}, {})).object);
  expect_noted(Link(Make(root_, "outside"), directory, "linked").directory);
  expect_noted(Remove(directory, "linked").object);
  expect_noted(RemoveDirectory(directory, "inner").object);
  expect_noted(Rename(directory, "file", root_, "out").from);
  expect_noted(Rename(root_, "out", directory, "in").to);
}

TEST_P(NamesSuite, FailedCreationReportsAnUnchangedDirectory) {
  const Handle directory = MakeDirectory(root_, "directory");
  Make(directory, "file");
  const Attributes before = Stat(directory);
  for (const Changed<Node>& failed : {Await(fs().Create(caller_, directory, "file", HowOf(CreateMode::kGuarded))),
                                      Await(fs().MakeDirectory(caller_, directory, "file", {})),
                                      Await(fs().MakeSymlink(caller_, directory, "file", "x", {})),
                                      Await(fs().MakeNode(caller_, directory, "file", {}, {}))}) {
    EXPECT_EQ(ErrorOf(failed.result), Error::kExist);
    ExpectNoted(failed.object, before, directory);
    EXPECT_EQ(failed.object.before->ctime, failed.object.after->ctime);
  }
}

TEST_P(NamesSuite, RejectsNamesInObjectsThatAreNotDirectories) {
  const Handle file = Make(root_, "file");
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, file, "x", {})).result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Await(fs().MakeDirectory(caller_, file, "x", {})).result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, file, "x", "y", {})).result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Await(fs().MakeNode(caller_, file, "x", {}, {})).result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Remove(file, "x").result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(RemoveDirectory(file, "x").result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Rename(file, "x", root_, "y").result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Rename(root_, "file", file, "y").result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Link(file, file, "y").result), Error::kNotDir);
  Collector collector(1);
  EXPECT_EQ(ErrorOf(Await(fs().ReadDirectory(caller_, file, {}, collector)).result), Error::kNotDir);
}

TEST_P(NamesSuite, UncheckedCreateAcceptsAnExistingFile) {
  const Handle file = Make(root_, "file", 0604);
  ASSERT_TRUE(Write(file, 0, "text").result);
  CreateHow how = HowOf(CreateMode::kUnchecked);
  how.attributes.mode = 0777;
  const Changed<Node> again = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(again.result);
  EXPECT_EQ(again.result->handle, file);
  EXPECT_EQ(again.result->attributes.mode, 0604u);
  EXPECT_EQ(ReadText(file), "text");
  how.attributes.size = 0;
  const Changed<Node> emptied = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(emptied.result);
  EXPECT_EQ(emptied.result->attributes.size, 0u);
  EXPECT_EQ(ReadText(file), "");
}

TEST_P(NamesSuite, UncheckedCreateRejectsExistingObjectsOfOtherTypes) {
  MakeDirectory(root_, "directory");
  MakeSymlink(root_, "link", "directory");
  for (const char* name : {"directory", "link"}) {
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kUnchecked))).result), Error::kExist);
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kExclusive, 1))).result),
              Error::kExist);
  }
}

// RFC 1813 §3.3.8: a client that received no reply sends the request again and succeeds; another client, or a new
// attempt, fails.
TEST_P(NamesSuite, ExclusiveCreateSucceedsAgainForTheSameVerifierOnly) {
  for (const uint64_t verifier :
       {uint64_t{1}, uint64_t{0x0123456789abcdef}, ~uint64_t{0}, uint64_t{0x8000000080000000}}) {
    const std::string name = "file" + std::to_string(verifier);
    const Changed<Node> made = Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kExclusive, verifier)));
    ASSERT_TRUE(made.result);
    const Changed<Node> replayed = Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kExclusive, verifier)));
    ASSERT_TRUE(replayed.result);
    EXPECT_EQ(replayed.result->handle, made.result->handle);
    for (const uint64_t other : {verifier ^ 1, verifier ^ (uint64_t{1} << 63), verifier ^ (uint64_t{1} << 32)}) {
      EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kExclusive, other))).result),
                Error::kExist);
    }
    EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, root_, name, HowOf(CreateMode::kGuarded))).result), Error::kExist);
  }
}

TEST_P(NamesSuite, ExclusiveCreateSucceedsAgainAfterARestart) {
  const CreateHow how = HowOf(CreateMode::kExclusive, 0xfedcba9876543210);
  const Changed<Node> made = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(made.result);
  if (!backend_->Restart()) GTEST_SKIP() << "the files do not survive the process";
  const Changed<Node> replayed = Await(fs().Create(caller_, root_, "file", how));
  ASSERT_TRUE(replayed.result);
  EXPECT_EQ(replayed.result->handle, made.result->handle);
}

TEST_P(NamesSuite, SymlinkHoldsItsTargetAndIsNotFollowed) {
  const Handle link = MakeSymlink(root_, "link", "/etc/passwd");
  EXPECT_EQ(Stat(link).type, FileType::kSymlink);
  EXPECT_EQ(Stat(link).size, 11u);
  const Observed<std::string> target = Await(fs().ReadLink(caller_, link));
  ASSERT_TRUE(target.result);
  EXPECT_EQ(*target.result, "/etc/passwd");
  EXPECT_TRUE(target.attributes);
  EXPECT_EQ(Lookup(root_, "link").result->handle, link);
  EXPECT_EQ(ErrorOf(Read(link, 0, 10).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Write(link, 0, "x").result), Error::kInvalid);
  const Handle up = MakeSymlink(root_, "up", "..");
  EXPECT_EQ(LookupError(up, "etc"), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Await(fs().Create(caller_, up, "x", {})).result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(Await(fs().ReadLink(caller_, root_)).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, root_, "empty", "", {})).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Await(fs().MakeSymlink(caller_, root_, "long", std::string(5000, 'x'), {})).result),
            Error::kNameTooLong);
}

TEST_P(NamesSuite, SetAttributesOfASymlinkDoesNotFollowIt) {
  const Handle file = Make(root_, "file", 0600);
  const Handle link = MakeSymlink(root_, "link", "file");
  const Timestamp before = Stat(file).mtime;
  NewAttributes values;
  values.mode = 0777;
  values.mtime = {SetTime::How::kGiven, {1, 0}};
  EXPECT_TRUE(Set(link, values).result);
  EXPECT_EQ(Stat(link).mtime, (Timestamp{1, 0}));
  EXPECT_EQ(Stat(file).mtime, before);
  EXPECT_EQ(Stat(file).mode, 0600u);
}

TEST_P(NamesSuite, MakesFifosSocketsAndDevices) {
  NewAttributes attributes;
  attributes.mode = 0620;
  for (const FileType type : {FileType::kFifo, FileType::kSocket}) {
    const Changed<Node> made =
        Await(fs().MakeNode(caller_, root_, "node" + std::to_string(int(type)), {type, {}}, attributes));
    ASSERT_TRUE(made.result);
    EXPECT_EQ(made.result->attributes.type, type);
    EXPECT_EQ(made.result->attributes.mode, 0620u);
    EXPECT_EQ(ErrorOf(Read(made.result->handle, 0, 1).result), Error::kInvalid);
    EXPECT_EQ(ErrorOf(Write(made.result->handle, 0, "x").result), Error::kInvalid);
  }
  for (const FileType type : {FileType::kRegular, FileType::kDirectory, FileType::kSymlink}) {
    EXPECT_EQ(ErrorOf(Await(fs().MakeNode(caller_, root_, "bad", {type, {}}, {})).result), Error::kBadType);
  }
  if (!backend_->has_callers()) GTEST_SKIP() << "only root makes devices: run as root for this test";
  for (const FileType type : {FileType::kCharacter, FileType::kBlock}) {
    const NodeType device{type, {7, 300}};
    const std::string name = "device" + std::to_string(int(type));
    EXPECT_EQ(ErrorOf(Await(fs().MakeNode(As(1001, 1001), root_, name, device, attributes)).result), Error::kPerm);
    const Changed<Node> made = Await(fs().MakeNode(caller_, root_, name, device, attributes));
    ASSERT_TRUE(made.result);
    EXPECT_EQ(made.result->attributes.type, type);
    EXPECT_EQ(made.result->attributes.rdev, (Device{7, 300}));
  }
}

TEST_P(NamesSuite, RemovesFilesAndEmptyDirectories) {
  Make(root_, "file");
  const Handle directory = MakeDirectory(root_, "directory");
  Make(directory, "inner");
  EXPECT_EQ(ErrorOf(Remove(root_, "directory").result), Error::kIsDir);
  EXPECT_EQ(ErrorOf(RemoveDirectory(root_, "file").result), Error::kNotDir);
  EXPECT_EQ(ErrorOf(RemoveDirectory(root_, "directory").result), Error::kNotEmpty);
  EXPECT_EQ(ErrorOf(Remove(root_, "missing").result), Error::kNoEnt);
  EXPECT_EQ(ErrorOf(RemoveDirectory(root_, "missing").result), Error::kNoEnt);
  EXPECT_TRUE(Remove(directory, "inner").result);
  EXPECT_TRUE(RemoveDirectory(root_, "directory").result);
  EXPECT_TRUE(Remove(root_, "file").result);
  EXPECT_EQ(CountNames(List(root_)), (std::map<std::string, int>{{".", 1}, {"..", 1}}));
}

TEST_P(NamesSuite, RemoveDoesNotFollowASymlink) {
  const Handle file = Make(root_, "file");
  MakeSymlink(root_, "link", "file");
  EXPECT_TRUE(Remove(root_, "link").result);
  EXPECT_FALSE(StatError(file));
}

TEST_P(NamesSuite, RenameReplacesACompatibleTarget) {
  const Handle file = Make(root_, "file");
  Make(root_, "old");
  EXPECT_TRUE(Rename(root_, "file", root_, "old").result);
  EXPECT_EQ(Lookup(root_, "old").result->handle, file);
  EXPECT_EQ(LookupError(root_, "file"), Error::kNoEnt);
  const Handle directory = MakeDirectory(root_, "directory");
  MakeDirectory(root_, "empty");
  EXPECT_TRUE(Rename(root_, "directory", root_, "empty").result);
  EXPECT_EQ(Lookup(root_, "empty").result->handle, directory);
}

TEST_P(NamesSuite, RenameRejectsIncompatibleTargets) {
  Make(root_, "file");
  const Handle full = MakeDirectory(root_, "full");
  const Handle inner = MakeDirectory(full, "inner");
  MakeDirectory(root_, "directory");
  const Attributes before = Stat(root_), before_full = Stat(full);
  EXPECT_EQ(ErrorOf(Rename(root_, "file", root_, "full").result), Error::kExist);
  EXPECT_EQ(ErrorOf(Rename(root_, "directory", root_, "file").result), Error::kExist);
  EXPECT_EQ(ErrorOf(Rename(root_, "directory", root_, "full").result), Error::kExist);
  EXPECT_EQ(ErrorOf(Rename(root_, "missing", root_, "x").result), Error::kNoEnt);
  EXPECT_EQ(ErrorOf(Rename(root_, "full", full, "itself").result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Rename(root_, "full", inner, "deeper").result), Error::kInvalid);
  const Renamed refused = Rename(root_, "missing", full, "x");
  ExpectNoted(refused.from, before, root_);
  ExpectNoted(refused.to, before_full, full);
}

TEST_P(NamesSuite, RenameToAnotherLinkOfTheSameFileChangesNothing) {
  const Handle file = Make(root_, "one");
  ASSERT_TRUE(Link(file, root_, "two").result);
  MakeDirectory(root_, "directory");
  const uint64_t before = Stat(root_).change;
  EXPECT_TRUE(Rename(root_, "one", root_, "two").result);
  EXPECT_TRUE(Rename(root_, "one", root_, "one").result);
  EXPECT_TRUE(Rename(root_, "directory", root_, "directory").result);
  EXPECT_EQ(Stat(root_).change, before);
  EXPECT_EQ(Stat(file).nlink, 2u);
  EXPECT_EQ(Lookup(root_, "one").result->handle, file);
  EXPECT_EQ(Lookup(root_, "two").result->handle, file);
}

TEST_P(NamesSuite, LinkAddsASecondName) {
  const Handle file = Make(root_, "file");
  const Handle directory = MakeDirectory(root_, "directory");
  const Attributes before = Stat(directory);
  const Linked linked = Link(file, directory, "second");
  ASSERT_TRUE(linked.result);
  EXPECT_EQ(linked.file->nlink, 2u);
  ExpectNoted(linked.directory, before, directory);
  const Handle symlink = MakeSymlink(root_, "symlink", "file");
  EXPECT_TRUE(Link(symlink, directory, "third").result);
  EXPECT_EQ(Lookup(directory, "third").result->attributes.type, FileType::kSymlink);
  const Linked refused = Link(file, directory, "second");
  EXPECT_EQ(ErrorOf(refused.result), Error::kExist);
  EXPECT_TRUE(refused.file && refused.directory.before && refused.directory.after);
  EXPECT_EQ(ErrorOf(Link(directory, root_, "loop").result), Error::kIsDir);
}

}  // namespace penstock::fs::suite
