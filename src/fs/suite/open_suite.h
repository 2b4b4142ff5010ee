// Tests of methods for callers that keep files open: pinned files, and creation that reports what it did.
#pragma once

#include "fs/suite/data_suite.h"

namespace penstock::fs::suite {

class OpenSuite : public FileSystemSuite {
 protected:
  Pinned Pin(const Handle& file) {
    Result<Pinned> pinned = Await(fs().Pin(caller_, file));
    EXPECT_TRUE(pinned) << ToString(pinned.error());
    return pinned.value_or(nullptr);
  }
  Changed<Node> Create(std::string_view name, const CreateHow& how) {
    return Await(fs().Create(caller_, root_, name, how));
  }
};

TEST_P(OpenSuite, PinnedFileOutlivesItsLastName) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, "text").result);
  Pinned pinned = Pin(file);
  ASSERT_TRUE(pinned);
  ASSERT_TRUE(Remove(root_, "file").result);
  EXPECT_EQ(LookupError(root_, "file"), Error::kNoEnt);
  EXPECT_EQ(Stat(file).nlink, 0u);
  EXPECT_EQ(ReadText(file), "text");
  EXPECT_TRUE(Write(file, 4, " and more").result);
  EXPECT_TRUE(Await(fs().Commit(caller_, file)).result);
  NewAttributes values;
  values.mode = 0600;
  values.size = 6;
  EXPECT_TRUE(Set(file, values).result);
  EXPECT_EQ(ReadText(file), "text a");
  pinned.reset();
  EXPECT_EQ(StatError(file), Error::kStale);
  EXPECT_EQ(ErrorOf(Read(file, 0, 1).result), Error::kStale);
}

TEST_P(OpenSuite, PinnedFileOutlivesItsReplacement) {
  const Handle file = Make(root_, "file");
  Make(root_, "new");
  const Pinned pinned = Pin(file);
  ASSERT_TRUE(Rename(root_, "new", root_, "file").result);
  EXPECT_FALSE(StatError(file));
  EXPECT_FALSE(Lookup(root_, "file").result->handle == file);
}

TEST_P(OpenSuite, FileWithoutANameExistsUntilTheLastPinIsReleased) {
  const Handle file = Make(root_, "file");
  Pinned one = Pin(file);
  Pinned two = Pin(file);
  ASSERT_TRUE(Remove(root_, "file").result);
  Pinned three = Pin(file);
  one.reset();
  two.reset();
  EXPECT_FALSE(StatError(file));
  three.reset();
  EXPECT_EQ(StatError(file), Error::kStale);
  EXPECT_EQ(ErrorOf(Await(fs().Pin(caller_, file))), Error::kStale);
}

TEST_P(OpenSuite, ReleasedPinDoesNotKeepAFile) {
  const Handle file = Make(root_, "file");
  Pin(file).reset();
  EXPECT_FALSE(StatError(file));
  ASSERT_TRUE(Remove(root_, "file").result);
  EXPECT_EQ(StatError(file), Error::kStale);
}

TEST_P(OpenSuite, PinnedFileWithoutANameCannotBeLinked) {
  const Handle file = Make(root_, "file");
  const Pinned pinned = Pin(file);
  ASSERT_TRUE(Remove(root_, "file").result);
  EXPECT_EQ(ErrorOf(Link(file, root_, "again").result), Error::kStale);
  const Handle other = Make(root_, "file");
  EXPECT_FALSE(other == file);
  EXPECT_EQ(Stat(other).nlink, 1u);
}

// The number of other objects that are used in the meantime does not matter.
TEST_P(OpenSuite, PinnedFileStaysUsableWhileOtherFilesAreUsed) {
  const Handle file = Make(root_, "file");
  const Pinned pinned = Pin(file);
  ASSERT_TRUE(Remove(root_, "file").result);
  for (int i = 0; i < 20; ++i) Make(root_, "other" + std::to_string(i));
  EXPECT_FALSE(StatError(file));
}

TEST_P(OpenSuite, PinsRegularFilesOnly) {
  EXPECT_EQ(ErrorOf(Await(fs().Pin(caller_, root_))), Error::kIsDir);
  EXPECT_EQ(ErrorOf(Await(fs().Pin(caller_, MakeSymlink(root_, "link", "x")))), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Await(fs().Pin(caller_, Handle()))), Error::kBadHandle);
}

TEST_P(OpenSuite, CreateReportsWhetherTheFileExisted) {
  CreateHow how;
  EXPECT_FALSE(Create("file", how).result->existed);
  EXPECT_TRUE(Create("file", how).result->existed);
  how.attributes.size = 0;
  EXPECT_TRUE(Create("file", how).result->existed);
  how.mode = CreateMode::kExclusive;
  how.attributes = {};
  how.verifier = CreateVerifier(1);
  EXPECT_FALSE(Create("exclusive", how).result->existed);
  EXPECT_TRUE(Create("exclusive", how).result->existed);
}

TEST_P(OpenSuite, CreateOfAFileThatExistsChangesNeitherItNorTheDirectory) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, "text").result);
  const Attributes before = Stat(file);
  const uint64_t directory = Stat(root_).change;
  CreateHow how;
  how.attributes.mode = 0;
  how.attributes.size = 100;
  const Changed<Node> found = Create("file", how);
  ASSERT_TRUE(found.result);
  EXPECT_EQ(found.result->handle, file);
  EXPECT_EQ(found.result->attributes.change, before.change);
  EXPECT_EQ(Stat(file).change, before.change);
  EXPECT_EQ(Stat(root_).change, directory);
}

TEST_P(OpenSuite, ExclusiveCreateSetsModeAndSize) {
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.verifier = CreateVerifier(0x0123456789abcdef);
  how.attributes.mode = 0640;
  how.attributes.size = 5;
  const Changed<Node> made = Create("file", how);
  ASSERT_TRUE(made.result);
  EXPECT_EQ(made.result->attributes.mode, 0640u);
  EXPECT_EQ(made.result->attributes.size, 5u);
  const Changed<Node> again = Create("file", how);
  ASSERT_TRUE(again.result);
  EXPECT_EQ(again.result->handle, made.result->handle);
  how.verifier = CreateVerifier(1);
  EXPECT_EQ(ErrorOf(Create("file", how).result), Error::kExist);
}

TEST_P(OpenSuite, ExclusiveCreateRejectsTimes) {
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.attributes.mtime.how = SetTime::How::kServerTime;
  EXPECT_EQ(ErrorOf(Create("file", how).result), Error::kInvalid);
  EXPECT_EQ(LookupError(root_, "file"), Error::kNoEnt);
}

TEST_P(OpenSuite, UmaskClearsBitsOfTheMode) {
  CreateHow how;
  how.attributes.mode = 0666;
  how.attributes.umask = 027;
  EXPECT_EQ(Create("file", how).result->attributes.mode, 0640u);
  NewAttributes attributes;
  attributes.mode = 01777;
  attributes.umask = 022;
  EXPECT_EQ(Await(fs().MakeDirectory(caller_, root_, "directory", attributes)).result->attributes.mode, 01755u);
  attributes.mode = 0666;
  EXPECT_EQ(Await(fs().MakeNode(caller_, root_, "fifo", {}, attributes)).result->attributes.mode, 0644u);
}

TEST_P(OpenSuite, ReportsTheTimeOfCreation) {
  const Attributes made = Stat(Make(root_, "file"));
  if (!made.born) GTEST_SKIP() << "this file system does not record it";
  EXPECT_GT(made.born->seconds, 1'500'000'000);
  EXPECT_LE(*made.born, made.ctime);
}

}  // namespace penstock::fs::suite
