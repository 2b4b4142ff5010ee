// Tests of reading and writing.
#pragma once

#include "fs/suite/fixture.h"

namespace penstock::fs::suite {

class DataSuite : public FileSystemSuite {};

TEST_P(DataSuite, ReadReturnsTheWrittenData) {
  const Handle file = Make(root_, "file");
  for (const size_t size :
       {size_t{1}, size_t{4095}, size_t{4096}, size_t{100'000}, size_t{1} << 20, (size_t{1} << 20) + 1}) {
    const std::string text = Pattern(size, static_cast<unsigned>(size));
    const Changed<WriteReply> wrote = Write(file, 0, text);
    ASSERT_TRUE(wrote.result);
    EXPECT_EQ(wrote.result->count, size);
    EXPECT_TRUE(ReadText(file, 0, static_cast<uint32_t>(size)) == text) << size;
    const size_t half = size / 2;
    EXPECT_TRUE(ReadText(file, half, static_cast<uint32_t>(size - half)) == text.substr(half)) << size;
  }
}

// Data of which the first octets are there.
struct Arriving {
  std::string text = Pattern(1'000'003);
  std::shared_ptr<Arrival> arrival = std::make_shared<Arrival>();
  Data data{Slice::Borrowed(AsBytes(text)), arrival};
};

TEST_P(DataSuite, WritesDataThatArriveMeanwhile) {
  const Handle file = Make(root_, "file");
  const Attributes before = Stat(file);
  Arriving arriving;
  arriving.arrival->Advance(100'000);
  const auto wrote = AwaitWith(fs().Write(caller_, file, 5, arriving.data, Stability::kUnstable), [&] {
    const size_t arrived = arriving.arrival->arrived();
    if (arrived < arriving.text.size()) arriving.arrival->Advance(std::min(arrived + 200'000, arriving.text.size()));
  });
  ASSERT_TRUE(wrote.result);
  EXPECT_EQ(wrote.result->count, arriving.text.size());
  ExpectNoted(wrote.object, before, file);
  EXPECT_TRUE(ReadText(file, 5, 1'000'003) == arriving.text);
}

TEST_P(DataSuite, StableWritesWaitForDataThatArrive) {
  const Handle file = Make(root_, "file");
  Arriving arriving;
  const auto wrote = AwaitWith(fs().Write(caller_, file, 0, arriving.data, Stability::kFileSync), [&] {
    if (arriving.arrival->arrived() == 0) arriving.arrival->Advance(arriving.text.size());
  });
  ASSERT_TRUE(wrote.result);
  EXPECT_EQ(wrote.result->committed, Stability::kFileSync);
  EXPECT_TRUE(ReadText(file, 0, 1'000'003) == arriving.text);
}

TEST_P(DataSuite, AWriteWhoseDataAreLostWritesWhatHasArrived) {
  for (const Stability stability : {Stability::kUnstable, Stability::kFileSync}) {
    const Handle file = Make(root_, "file");
    Arriving arriving;
    arriving.arrival->Advance(100'000);
    bool has_ended = false;
    const auto wrote = AwaitWith(fs().Write(caller_, file, 0, arriving.data, stability), [&] {
      if (!std::exchange(has_ended, true)) arriving.data.EndArrival();
    });
    ASSERT_TRUE(wrote.result);
    EXPECT_EQ(wrote.result->count, 100'000u);
    EXPECT_EQ(Stat(file).size, 100'000u) << "no octet is written that has not arrived";
    EXPECT_TRUE(ReadText(file, 0, 100'000) == arriving.text.substr(0, 100'000));
    ASSERT_TRUE(Remove(root_, "file").result);
  }
}

TEST_P(DataSuite, AWriteFailsAtOnceAlthoughItsDataStillArrive) {
  const Handle directory = root_;
  Arriving arriving;
  arriving.arrival->Advance(100'000);
  const auto wrote = AwaitWith(fs().Write(caller_, directory, 0, arriving.data, Stability::kUnstable), [&] {
    const size_t arrived = arriving.arrival->arrived();
    if (arrived < arriving.text.size()) arriving.arrival->Advance(arriving.text.size());
  });
  EXPECT_EQ(ErrorOf(wrote.result), Error::kIsDir);
}

TEST_P(DataSuite, ReadReportsTheEndOfTheFile) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, Pattern(100'000)).result);
  const auto expect = [&](uint64_t offset, uint32_t count, size_t size, bool eof) {
    const Observed<ReadReply> reply = Read(file, offset, count);
    ASSERT_TRUE(reply.result);
    EXPECT_EQ(reply.result->data.size(), size) << offset << '+' << count;
    EXPECT_EQ(reply.result->eof, eof) << offset << '+' << count;
    EXPECT_EQ(reply.attributes->size, 100'000u);
  };
  expect(0, 10, 10, false);
  expect(0, 99'999, 99'999, false);
  expect(0, 100'000, 100'000, true);
  expect(0, 200'000, 100'000, true);
  expect(99'990, 100, 10, true);
  expect(100'000, 10, 0, true);
  expect(uint64_t{1} << 62, 10, 0, true);
  expect(UINT64_MAX, 10, 0, true);
  expect(5, 0, 0, false);
}

TEST_P(DataSuite, WriteReportsAttributesBeforeAndAfter) {
  const Handle file = Make(root_, "file");
  const Attributes before = Stat(file);
  const Changed<WriteReply> wrote = Write(file, 10, "text");
  ASSERT_TRUE(wrote.result);
  ExpectNoted(wrote.object, before, file);
  EXPECT_EQ(wrote.object.after->size, 14u);
}

TEST_P(DataSuite, WritesReportTheirStabilityAndAConstantVerifier) {
  const Handle file = Make(root_, "file");
  std::vector<WriteVerifier> verifiers;
  for (const Stability stability : {Stability::kUnstable, Stability::kDataSync, Stability::kFileSync}) {
    const Changed<WriteReply> wrote = Write(file, 0, "text", stability);
    ASSERT_TRUE(wrote.result);
    EXPECT_GE(wrote.result->committed, stability);
    verifiers.push_back(wrote.result->verifier);
  }
  const Changed<WriteVerifier> committed = Await(fs().Commit(caller_, file));
  ASSERT_TRUE(committed.result);
  EXPECT_TRUE(committed.object.before && committed.object.after);
  verifiers.push_back(*committed.result);
  for (const WriteVerifier verifier : verifiers) EXPECT_EQ(verifier, verifiers.front());
  ASSERT_TRUE(Write(file, 4, " and more").result) << "a file can be written after a commit";
  EXPECT_EQ(ReadText(file), "text and more");
}

TEST_P(DataSuite, RestartChangesTheWriteVerifier) {
  const Handle file = Make(root_, "file");
  const WriteVerifier before = Write(file, 0, "x").result->verifier;
  if (!backend_->Restart()) GTEST_SKIP() << "the files do not survive the process";
  EXPECT_NE(*Await(fs().Commit(caller_, file)).result, before);
}

TEST_P(DataSuite, HolesReadAsZeros) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 5'000'000, "end").result);
  ASSERT_TRUE(Write(file, 2'000'000, "middle").result);
  EXPECT_EQ(Stat(file).size, 5'000'003u);
  if (backend_->knows_holes()) EXPECT_LT(Stat(file).used, 4'000'000u);
  EXPECT_EQ(ReadText(file, 0, 1000), std::string(1000, '\0'));
  EXPECT_EQ(ReadText(file, 1'999'998, 10), std::string("\0\0middle\0\0", 10));
  EXPECT_TRUE(ReadText(file, 1'000'000, 1'000'000) == std::string(1'000'000, '\0'));
  EXPECT_EQ(ReadText(file, 4'999'999, 100), std::string("\0end", 4));
}

TEST_P(DataSuite, AcceptsOffsetsBeyond32BitsAndRejectsThoseBeyond63) {
  const Handle file = Make(root_, "file");
  constexpr uint64_t kFar = (uint64_t{1} << 42) + 12'345;
  ASSERT_TRUE(Write(file, kFar, "far").result);
  EXPECT_EQ(Stat(file).size, kFar + 3);
  EXPECT_EQ(ReadText(file, kFar - 1, 100), std::string("\0far", 4));
  EXPECT_EQ(ErrorOf(Write(file, INT64_MAX, "x").result), Error::kFileTooBig);
  EXPECT_EQ(ErrorOf(Write(file, UINT64_MAX, "x").result), Error::kFileTooBig);
  const Changed<WriteReply> refused = Write(file, uint64_t{1} << 63, "x");
  EXPECT_EQ(ErrorOf(refused.result), Error::kFileTooBig);
  EXPECT_TRUE(refused.object.before && refused.object.after);
}

TEST_P(DataSuite, TruncationDropsDataAndExtensionReadsAsZeros) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, Pattern(3'000'000)).result);
  NewAttributes values;
  const auto resize = [&](uint64_t size) {
    const Attributes before = Stat(file);
    values.size = size;
    const Changed<void> set = Set(file, values);
    ASSERT_TRUE(set.result);
    ExpectNoted(set.object, before, file);
    EXPECT_EQ(Stat(file).size, size);
  };
  resize(10);
  resize(2'000'000);
  EXPECT_EQ(ReadText(file, 0, 20), Pattern(10) + std::string(10, '\0'));
  EXPECT_TRUE(ReadText(file, 1'000'000, 1'000'000) == std::string(1'000'000, '\0'));
  resize(0);
  EXPECT_EQ(ReadText(file), "");
}

// While a transport sends the data of a reply, it may read the data at the time of the Read or the current data, but no
// other memory.
TEST_P(DataSuite, DataOfAReplyOutlivesTheFile) {
  const Handle file = Make(root_, "file");
  const std::string text = Pattern(200'000);
  ASSERT_TRUE(Write(file, 0, text).result);
  const Observed<ReadReply> whole = Read(file, 0, 200'000);
  const Observed<ReadReply> small = Read(file, 0, 1000);
  ASSERT_TRUE(whole.result && small.result);
  ASSERT_TRUE(Remove(root_, "file").result);
  EXPECT_EQ(StatError(file), Error::kStale);
  EXPECT_TRUE(TextOf(whole.result->data) == text);
  EXPECT_EQ(TextOf(small.result->data), text.substr(0, 1000));
}

TEST_P(DataSuite, LaterWritesDoNotChangeTheDataOfSmallReads) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, "first").result);
  const Observed<ReadReply> reply = Read(file, 0, 100);
  ASSERT_TRUE(Write(file, 0, "other").result);
  EXPECT_EQ(TextOf(reply.result->data), "first");
  EXPECT_EQ(ReadText(file), "other");
}

TEST_P(DataSuite, EmptyWriteSucceedsAndChangesNothing) {
  const Handle file = Make(root_, "file");
  const Changed<WriteReply> wrote = Write(file, 100, "");
  ASSERT_TRUE(wrote.result);
  EXPECT_EQ(wrote.result->count, 0u);
  EXPECT_EQ(Stat(file).size, 0u);
}

TEST_P(DataSuite, RejectsReadAndWriteOfDirectories) {
  EXPECT_EQ(ErrorOf(Read(root_, 0, 10).result), Error::kIsDir);
  EXPECT_TRUE(Read(root_, 0, 10).attributes);
  EXPECT_EQ(ErrorOf(Write(root_, 0, "x").result), Error::kIsDir);
  EXPECT_EQ(ErrorOf(Await(fs().Commit(caller_, root_)).result), Error::kIsDir);
}

TEST_P(DataSuite, OwnerMayWriteAFileCreatedReadOnly) {
  if (backend_->has_callers()) caller_ = As(1001, 1001);
  const Handle file = Make(root_, "file", 0400);
  EXPECT_TRUE(Write(file, 0, "text").result);
  EXPECT_EQ(ReadText(file), "text");
}

TEST_P(DataSuite, ChecksEachCallAgainstTheCurrentMode) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  caller_ = As(1001, 1001);
  const Handle file = Make(root_, "file", 0666);
  ASSERT_TRUE(Write(file, 0, "text").result);
  const RequestContext other = As(1002, 1002);
  const auto set_mode = [&](uint32_t mode) {
    NewAttributes values;
    values.mode = mode;
    ASSERT_TRUE(Await(fs().SetAttributes(As(1001, 1001), file, values, {})).result);
  };
  caller_ = other;
  EXPECT_TRUE(Read(file, 0, 10).result);
  EXPECT_TRUE(Write(file, 0, "x").result);
  set_mode(0600);
  EXPECT_EQ(ErrorOf(Read(file, 0, 10).result), Error::kAccess);
  EXPECT_EQ(ErrorOf(Write(file, 0, "x").result), Error::kAccess);
  set_mode(0611);
  EXPECT_TRUE(Read(file, 0, 10).result) << "the right to execute includes the right to read";
  EXPECT_EQ(ErrorOf(Write(file, 0, "x").result), Error::kAccess);
  set_mode(0000);
  caller_ = As(1001, 1001);
  EXPECT_TRUE(Read(file, 0, 10).result) << "the owner may always read";
  EXPECT_TRUE(Write(file, 0, "y").result);
}

TEST_P(DataSuite, WriteClearsTheSetIdBits) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle file = Make(root_, "file", 06777);
  ASSERT_TRUE(Write(file, 0, "root may").result);
  EXPECT_EQ(Stat(file).mode, 06777u);
  caller_ = As(1001, 1001);
  ASSERT_TRUE(Write(file, 0, "others may not").result);
  EXPECT_EQ(Stat(file).mode, 0777u);
}

}  // namespace penstock::fs::suite
