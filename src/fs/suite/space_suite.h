// Tests of holes, of allocated and deallocated space, and of copies made by the file system.
#pragma once

#include "fs/suite/data_suite.h"

namespace penstock::fs::suite {

class SpaceSuite : public FileSystemSuite {
 protected:
  static constexpr uint64_t kMegabyte = 1 << 20;

  // Makes a file with data in the first and the last of four MiB, and a hole between them.
  Handle MakeSparse(std::string_view name) {
    const Handle file = Make(root_, name);
    EXPECT_TRUE(Write(file, 0, Pattern(kMegabyte)).result);
    EXPECT_TRUE(Write(file, 3 * kMegabyte, Pattern(kMegabyte, 1)).result);
    return file;
  }
  Handle MakeFilled(std::string_view name, size_t size, unsigned seed = 0) {
    const Handle file = Make(root_, name);
    EXPECT_TRUE(Write(file, 0, Pattern(size, seed)).result);
    return file;
  }
  Observed<SeekReply> Seek(const Handle& file, uint64_t offset, SeekWhat what) {
    return Await(fs().Seek(caller_, file, offset, what));
  }
  // Returns the place that Seek finds, or no value if none exists.
  std::optional<uint64_t> Find(const Handle& file, uint64_t offset, SeekWhat what) {
    const Observed<SeekReply> reply = Seek(file, offset, what);
    EXPECT_TRUE(reply.result) << ToString(reply.result.error());
    if (!reply.result || !reply.result->found) return std::nullopt;
    return reply.result->offset;
  }
  Changed<void> Allocate(const Handle& file, uint64_t offset, uint64_t length) {
    return Await(fs().Allocate(caller_, file, offset, length));
  }
  Changed<void> Deallocate(const Handle& file, uint64_t offset, uint64_t length) {
    return Await(fs().Deallocate(caller_, file, offset, length));
  }
  Changed<CopyReply> Copy(const Handle& from, uint64_t from_offset, const Handle& to, uint64_t to_offset,
                          uint64_t count) {
    return Await(fs().Copy(caller_, from, from_offset, to, to_offset, count));
  }
  // Copies in as many steps as the file system needs.
  uint64_t CopyAll(const Handle& from, uint64_t from_offset, const Handle& to, uint64_t to_offset, uint64_t count) {
    uint64_t done = 0;
    while (done < count) {
      const auto step = Copy(from, from_offset + done, to, to_offset + done, count - done);
      EXPECT_TRUE(step.result) << ToString(step.result.error());
      if (!step.result || step.result->count == 0) break;
      done += step.result->count;
    }
    return done;
  }
  Changed<void> Clone(const Handle& from, uint64_t from_offset, const Handle& to, uint64_t to_offset, uint64_t count) {
    return Await(fs().Clone(caller_, from, from_offset, to, to_offset, count));
  }
  uint64_t clone_block() { return fs().GetProperties().clone_block_size; }
};

#define PENSTOCK_NEEDS_CLONES() \
  if (clone_block() == 0) GTEST_SKIP() << "this file system cannot clone files: use btrfs or xfs"

TEST_P(SpaceSuite, FindsDataAndHoles) {
  if (!backend_->knows_holes()) GTEST_SKIP() << "this file system does not tell where holes are";
  const Handle file = MakeSparse("file");
  EXPECT_EQ(Find(file, 0, SeekWhat::kData), 0u);
  EXPECT_EQ(Find(file, 5, SeekWhat::kData), 5u) << "within data";
  EXPECT_EQ(Find(file, 5, SeekWhat::kHole), kMegabyte);
  EXPECT_EQ(Find(file, kMegabyte, SeekWhat::kData), 3 * kMegabyte);
  EXPECT_EQ(Find(file, kMegabyte + 5, SeekWhat::kHole), kMegabyte + 5);
}

TEST_P(SpaceSuite, FindsAHoleAtTheEndOfTheFile) {
  const Handle file = MakeSparse("file");
  EXPECT_EQ(Find(file, 3 * kMegabyte, SeekWhat::kHole), 4 * kMegabyte);
  EXPECT_EQ(Find(file, 4 * kMegabyte, SeekWhat::kHole), 4 * kMegabyte);
  EXPECT_EQ(Find(file, 4 * kMegabyte, SeekWhat::kData), std::nullopt);
}

TEST_P(SpaceSuite, FindsNoDataInASparseFile) {
  if (!backend_->knows_holes()) GTEST_SKIP() << "this file system does not tell where holes are";
  const Handle file = Make(root_, "file");
  NewAttributes values;
  values.size = 2 * kMegabyte;
  ASSERT_TRUE(Set(file, values).result);
  const Observed<SeekReply> reply = Seek(file, 0, SeekWhat::kData);
  ASSERT_TRUE(reply.result);
  EXPECT_FALSE(reply.result->found);
  EXPECT_EQ(reply.result->offset, 2 * kMegabyte);
  EXPECT_TRUE(reply.attributes);
}

TEST_P(SpaceSuite, RejectsSeekBeyondTheEnd) {
  const Handle file = MakeFilled("file", 10);
  EXPECT_EQ(ErrorOf(Seek(file, 11, SeekWhat::kData).result), Error::kNxIo);
  EXPECT_EQ(ErrorOf(Seek(file, UINT64_MAX, SeekWhat::kHole).result), Error::kNxIo);
  EXPECT_EQ(ErrorOf(Seek(root_, 0, SeekWhat::kHole).result), Error::kIsDir);
}

TEST_P(SpaceSuite, AllocateAddsZerosAndExtendsTheFile) {
  if (!backend_->reserves_space()) GTEST_SKIP() << "this file system cannot reserve space";
  const Handle file = MakeFilled("file", 10);
  const Attributes before = Stat(file);
  const Changed<void> allocated = Allocate(file, 5, 2 * kMegabyte);
  ASSERT_TRUE(allocated.result);
  ExpectNoted(allocated.object, before, file);
  EXPECT_EQ(Stat(file).size, 2 * kMegabyte + 5);
  EXPECT_GE(Stat(file).used, 2 * kMegabyte);
  EXPECT_TRUE(ReadText(file, 0, 1000) == Pattern(10) + std::string(990, '\0'));
}

TEST_P(SpaceSuite, DeallocateWritesZerosAndKeepsTheSize) {
  const Handle file = MakeFilled("file", 4 * kMegabyte);
  const Attributes before = Stat(file);
  const Changed<void> punched = Deallocate(file, 1000, 3 * kMegabyte);
  ASSERT_TRUE(punched.result);
  ExpectNoted(punched.object, before, file);
  EXPECT_EQ(Stat(file).size, 4 * kMegabyte);
  if (backend_->knows_holes()) EXPECT_LE(Stat(file).used, 2 * kMegabyte);
  EXPECT_NE(Stat(file).change, before.change);
  std::string expected = Pattern(4 * kMegabyte);
  expected.replace(1000, 3 * kMegabyte, 3 * kMegabyte, '\0');
  EXPECT_TRUE(ReadText(file, 0, 4 * kMegabyte) == expected);
}

TEST_P(SpaceSuite, DeallocateMayReachBeyondTheEnd) {
  const Handle file = MakeFilled("file", 10);
  EXPECT_TRUE(Deallocate(file, 5, UINT64_MAX).result);
  EXPECT_EQ(ReadText(file), Pattern(5) + std::string(5, '\0'));
  EXPECT_TRUE(Deallocate(file, 100, 10).result);
  EXPECT_TRUE(Deallocate(file, UINT64_MAX, 10).result);
  EXPECT_EQ(Stat(file).size, 10u);
}

TEST_P(SpaceSuite, RejectsEmptyAndOverflowingRanges) {
  const Handle file = MakeFilled("file", 10);
  EXPECT_EQ(ErrorOf(Allocate(file, 0, 0).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Deallocate(file, 0, 0).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Allocate(file, UINT64_MAX, 1).result), Error::kFileTooBig);
  EXPECT_EQ(ErrorOf(Allocate(file, 1, UINT64_MAX).result), Error::kFileTooBig);
  EXPECT_EQ(ErrorOf(Allocate(root_, 0, 1).result), Error::kIsDir);
}

TEST_P(SpaceSuite, ReportsThatSpaceCannotBeReserved) {
  if (backend_->reserves_space()) GTEST_SKIP() << "this file system can reserve space";
  const Handle file = MakeFilled("file", 10);
  EXPECT_EQ(ErrorOf(Allocate(file, 0, 1000).result), Error::kNotSupported);
  EXPECT_EQ(Stat(file).size, 10u);
}

TEST_P(SpaceSuite, CopyCopiesTheRange) {
  const Handle from = MakeFilled("from", 3'000'000);
  const Handle to = MakeFilled("to", 100, 7);
  const Attributes before = Stat(to);
  const Changed<CopyReply> first = Copy(from, 10, to, 50, 1000);
  ASSERT_TRUE(first.result);
  EXPECT_EQ(first.result->count, 1000u);
  ExpectNoted(first.object, before, to);
  EXPECT_EQ(CopyAll(from, 1010, to, 1050, 2'998'990), 2'998'990u);
  EXPECT_TRUE(ReadText(to, 0, 50) == Pattern(100, 7).substr(0, 50));
  EXPECT_TRUE(ReadText(to, 50, 3'000'000) == Pattern(3'000'000).substr(10));
}

TEST_P(SpaceSuite, CopyEndsAtTheEndOfTheSource) {
  const Handle from = MakeFilled("from", 1000);
  const Handle to = Make(root_, "to");
  EXPECT_EQ(CopyAll(from, 400, to, 0, UINT64_MAX), 600u);
  EXPECT_EQ(Stat(to).size, 600u);
  EXPECT_EQ(Copy(from, 1000, to, 0, 10).result->count, 0u);
  EXPECT_EQ(Copy(from, UINT64_MAX, to, 0, 10).result->count, 0u);
}

TEST_P(SpaceSuite, RejectsOverlappingCopyWithinAFile) {
  const Handle file = MakeFilled("file", 1000);
  EXPECT_EQ(ErrorOf(Copy(file, 0, file, 500, 501).result), Error::kInvalid);
  EXPECT_EQ(CopyAll(file, 0, file, 500, 500), 500u);
  EXPECT_TRUE(ReadText(file) == Pattern(1000).substr(0, 500) + Pattern(1000).substr(0, 500));
}

TEST_P(SpaceSuite, CopyReportsTheWriteVerifier) {
  const Handle from = MakeFilled("from", 1000);
  const Handle to = Make(root_, "to");
  const Changed<CopyReply> copied = Copy(from, 0, to, 0, 1000);
  ASSERT_TRUE(copied.result);
  EXPECT_EQ(copied.result->verifier, *Await(fs().Commit(caller_, to)).result);
}

TEST_P(SpaceSuite, CopiesRegularFilesOnly) {
  const Handle file = MakeFilled("file", 10);
  EXPECT_EQ(ErrorOf(Copy(root_, 0, file, 0, 1).result), Error::kIsDir);
  EXPECT_EQ(ErrorOf(Copy(file, 0, root_, 0, 1).result), Error::kIsDir);
  EXPECT_EQ(ErrorOf(Copy(file, 0, file, UINT64_MAX, 1).result), Error::kFileTooBig);
}

TEST_P(SpaceSuite, CloneCopiesTheRangeAndIsIndependentAfterwards) {
  PENSTOCK_NEEDS_CLONES();
  const Handle from = MakeFilled("from", 3 * kMegabyte + 5);
  const Handle to = MakeFilled("to", 100, 7);
  const Attributes before = Stat(to);
  const Changed<void> cloned = Clone(from, 0, to, 0, 0);
  ASSERT_TRUE(cloned.result) << ToString(cloned.result.error());
  ExpectNoted(cloned.object, before, to);
  EXPECT_TRUE(ReadText(to, 0, 4 * kMegabyte) == Pattern(3 * kMegabyte + 5));
  ASSERT_TRUE(Write(to, 10, "other").result);
  EXPECT_TRUE(ReadText(from, 0, 100) == Pattern(100));
  ASSERT_TRUE(Clone(from, clone_block(), to, kMegabyte, clone_block()).result);
  EXPECT_TRUE(ReadText(to, kMegabyte, static_cast<uint32_t>(clone_block())) ==
              Pattern(kMegabyte).substr(clone_block(), clone_block()));
}

TEST_P(SpaceSuite, RejectsClonesThatAreNotWholeBlocks) {
  PENSTOCK_NEEDS_CLONES();
  const Handle from = MakeFilled("from", 3 * kMegabyte + 5);
  const Handle to = Make(root_, "to");
  EXPECT_EQ(ErrorOf(Clone(from, 1, to, 0, clone_block()).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Clone(from, 0, to, 1, clone_block()).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Clone(from, 0, to, 0, clone_block() + 1).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Clone(from, 0, to, 0, 3 * kMegabyte + 6).result), Error::kInvalid)
      << "the range ends beyond the source";
  EXPECT_EQ(ErrorOf(Clone(from, 4 * kMegabyte, to, 0, 0).result), Error::kInvalid);
  EXPECT_EQ(ErrorOf(Clone(from, 0, from, clone_block(), 2 * clone_block()).result), Error::kInvalid)
      << "the ranges overlap";
  EXPECT_TRUE(Clone(from, 3 * kMegabyte, to, 0, 5).result) << "the range ends at the end of the source";
}

TEST_P(SpaceSuite, ReportsThatCloningIsNotSupported) {
  if (clone_block() != 0) GTEST_SKIP() << "this file system can clone files";
  EXPECT_EQ(ErrorOf(Clone(MakeFilled("from", 10), 0, Make(root_, "to"), 0, 0).result), Error::kNotSupported);
}

TEST_P(SpaceSuite, RequiresTheRightsToReadAndWrite) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle closed = MakeFilled("closed", 10000);
  const Handle read = MakeFilled("read", 10000);
  const Handle write = MakeFilled("write", 10000);
  for (const auto& [file, mode] : {std::pair{closed, 0600}, {read, 0604}, {write, 0602}}) {
    NewAttributes values;
    values.mode = mode;
    ASSERT_TRUE(Set(file, values).result);
  }
  caller_ = As(1001, 1001);
  EXPECT_EQ(ErrorOf(Seek(closed, 0, SeekWhat::kHole).result), Error::kAccess);
  EXPECT_TRUE(Seek(read, 0, SeekWhat::kHole).result);
  EXPECT_EQ(ErrorOf(Allocate(read, 0, 1).result), Error::kAccess);
  if (backend_->reserves_space()) EXPECT_TRUE(Allocate(write, 0, 1).result);
  EXPECT_EQ(ErrorOf(Deallocate(read, 0, 1).result), Error::kAccess);
  EXPECT_TRUE(Deallocate(write, 0, 1).result);
  EXPECT_EQ(ErrorOf(Copy(closed, 0, write, 0, 1).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Copy(read, 0, closed, 0, 1).result), Error::kAccess);
  EXPECT_TRUE(Copy(read, 0, write, 0, 1).result);
  EXPECT_EQ(ErrorOf(Clone(closed, 0, write, 0, 0).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Clone(read, 0, closed, 0, 0).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Await(fs().Advise(caller_, closed, 0, 0, Advice::kWillNeed))), Error::kAccess);
}

TEST_P(SpaceSuite, CopyAndAllocateClearTheSetIdBits) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle from = MakeFilled("from", 10);
  const Handle copied = Make(root_, "copied", 06777), allocated = Make(root_, "allocated", 06777);
  caller_ = As(1001, 1001);
  ASSERT_TRUE(Copy(from, 0, copied, 0, 10).result);
  EXPECT_EQ(Stat(copied).mode, 0777u);
  if (!backend_->reserves_space()) return;
  ASSERT_TRUE(Allocate(allocated, 0, 10).result);
  EXPECT_EQ(Stat(allocated).mode, 0777u);
}

TEST_P(SpaceSuite, CloneClearsTheSetIdBits) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  PENSTOCK_NEEDS_CLONES();
  const Handle from = MakeFilled("from", 10);
  const Handle cloned = Make(root_, "cloned", 06777);
  caller_ = As(1001, 1001);
  ASSERT_TRUE(Clone(from, 0, cloned, 0, 0).result);
  EXPECT_EQ(Stat(cloned).mode, 0777u);
}

TEST_P(SpaceSuite, AcceptsAdviceForFiles) {
  const Handle file = MakeFilled("file", 100'000);
  for (const Advice advice : {Advice::kDontNeed, Advice::kWillNeed}) {
    EXPECT_TRUE(Await(fs().Advise(caller_, file, 0, 0, advice)));
    EXPECT_TRUE(Await(fs().Advise(caller_, file, UINT64_MAX, UINT64_MAX, advice)));
  }
  EXPECT_EQ(ErrorOf(Await(fs().Advise(caller_, root_, 0, 0, Advice::kWillNeed))), Error::kIsDir);
  EXPECT_TRUE(ReadText(file) == Pattern(100'000));
}

}  // namespace penstock::fs::suite
