#include "rpcrdma/read_plan.h"

#include <gtest/gtest.h>

#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

using rdma::Stag;

Header ReadingCall(Procedure procedure, std::vector<ReadSegment> reads) {
  Header header;
  header.fixed.procedure = procedure;
  header.chunks.reads = std::move(reads);
  return header;
}
ReadSegment At(uint32_t position, uint32_t length, uint32_t stag = 1) { return {position, {Stag(stag), length, 0}}; }

constexpr size_t kMax = 1 << 20;

std::vector<std::pair<size_t, size_t>> OffsetsAndLengths(const Result<ReadPlan, ReadError>& plan) {
  EXPECT_TRUE(plan) << ToString(plan.error());
  std::vector<std::pair<size_t, size_t>> out;
  if (plan)
    for (const ReadChunk& chunk : plan->items) out.emplace_back(chunk.offset, chunk.length);
  return out;
}

TEST(ReadPlan, HasNoReadsForACallWithoutChunks) {
  Result<ReadPlan, ReadError> plan = PlanReads(ReadingCall(Procedure::kMsg, {}), 40, kMax);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->long_call);
  EXPECT_EQ(plan->total, 0u);
  EXPECT_TRUE(plan->items.empty());
}

TEST(ReadPlan, JoinsSegmentsOfOnePositionInListOrder) {
  Result<ReadPlan, ReadError> plan =
      PlanReads(ReadingCall(Procedure::kMsg, {At(80, 100, 1), At(80, 7, 2), At(80, 30, 3)}), 80, kMax);
  EXPECT_EQ(OffsetsAndLengths(plan), (std::vector<std::pair<size_t, size_t>>{{80, 137}}));
  ASSERT_EQ(plan->SegmentsOf(plan->items[0]).size(), 3u);
  EXPECT_EQ(plan->SegmentsOf(plan->items[0])[1].stag, Stag(2));
  EXPECT_EQ(plan->total, 137u);
}

// The stream has 80 octets, an item of 5 octets with 3 of padding, 8 octets, an item of 16 octets, and 4 octets.
TEST(ReadPlan, PositionsIncludeEarlierChunksAndTheirPadding) {
  EXPECT_EQ(OffsetsAndLengths(PlanReads(ReadingCall(Procedure::kMsg, {At(80, 5), At(96, 16)}), 92, kMax)),
            (std::vector<std::pair<size_t, size_t>>{{80, 5}, {88, 16}}));
  // The chunk may also include the padding.
  EXPECT_EQ(OffsetsAndLengths(PlanReads(ReadingCall(Procedure::kMsg, {At(80, 8), At(96, 16)}), 92, kMax)),
            (std::vector<std::pair<size_t, size_t>>{{80, 8}, {88, 16}}));
}

TEST(ReadPlan, AcceptsChunksInAnyOrderAndInterleaved) {
  Result<ReadPlan, ReadError> plan =
      PlanReads(ReadingCall(Procedure::kMsg, {At(96, 10, 3), At(80, 4, 1), At(96, 6, 4), At(80, 1, 2)}), 92, kMax);
  EXPECT_EQ(OffsetsAndLengths(plan), (std::vector<std::pair<size_t, size_t>>{{80, 5}, {88, 16}}));
  std::vector<uint32_t> stags;
  for (const Segment& segment : plan->segments) stags.push_back(segment.stag.value());
  EXPECT_EQ(stags, (std::vector<uint32_t>{1, 2, 3, 4}));
}

TEST(ReadPlan, IgnoresChunksOfLengthZero) {
  EXPECT_EQ(OffsetsAndLengths(PlanReads(ReadingCall(Procedure::kMsg, {At(80, 0), At(88, 4)}), 92, kMax)),
            (std::vector<std::pair<size_t, size_t>>{{88, 4}}));
}

TEST(ReadPlan, TakesTheStreamOfALongCallFromThePositionZeroChunk) {
  Result<ReadPlan, ReadError> plan =
      PlanReads(ReadingCall(Procedure::kNomsg, {At(0, 1000, 1), At(0, 24, 2), At(512, 3, 3)}), 0, kMax);
  EXPECT_EQ(OffsetsAndLengths(plan), (std::vector<std::pair<size_t, size_t>>{{512, 3}}));
  EXPECT_TRUE(plan->long_call);
  EXPECT_EQ(plan->stream.length, 1024u);
  EXPECT_EQ(plan->SegmentsOf(plan->stream).size(), 2u);
}

TEST(ReadPlan, RejectsImpossibleReadLists) {
  auto error = [](Procedure procedure, std::vector<ReadSegment> reads, size_t inline_size = 100) {
    Result<ReadPlan, ReadError> plan = PlanReads(ReadingCall(procedure, std::move(reads)), inline_size, kMax);
    EXPECT_FALSE(plan);
    return plan ? ReadError{} : plan.error();
  };
  EXPECT_EQ(error(Procedure::kMsg, {At(82, 4)}), ReadError::kMisaligned);
  EXPECT_EQ(error(Procedure::kMsg, {At(0, 4)}), ReadError::kPositionZero);
  EXPECT_EQ(error(Procedure::kNomsg, {At(4, 4)}, 0), ReadError::kPositionZero);
  EXPECT_EQ(error(Procedure::kNomsg, {}, 0), ReadError::kPositionZero);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, kMax + 1)}), ReadError::kTooLong);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, 0xffffffff), At(80, 0xffffffff)}), ReadError::kTooLong);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, kMax), At(84, 1)}), ReadError::kTooLong);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, 16), At(92, 4)}), ReadError::kOverlap);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, 13), At(92, 4)}), ReadError::kOverlap);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, 12), At(92, 4)}), ReadError::kOverlap)
      << "the length word of the second item has no room";
  EXPECT_EQ(error(Procedure::kMsg, {At(8, 1000), At(12, 4)}), ReadError::kOverlap);
  EXPECT_EQ(error(Procedure::kMsg, {At(104, 4)}), ReadError::kBeyondStream);
  EXPECT_EQ(error(Procedure::kMsg, {At(80, 4), At(108, 4)}), ReadError::kBeyondStream);
  EXPECT_EQ(error(Procedure::kNomsg, {At(0, 64), At(68, 4)}, 0), ReadError::kBeyondStream);
}

}  // namespace
}  // namespace penstock::rpcrdma
