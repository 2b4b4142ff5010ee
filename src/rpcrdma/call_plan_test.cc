#include "rpcrdma/call_plan.h"

#include <gtest/gtest.h>

#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

class CallPlanTest : public testing::Test {
 protected:
  rpc::Message Call(size_t stream, const std::vector<size_t>& payloads = {}) {
    stream_ = Pattern(stream);
    octets_.resize(1 << 20);
    rpc::Message message;
    message.stream = Slice::Borrowed(stream_);
    size_t offset = 40;
    for (size_t size : payloads) message.items.push_back(ItemAt(offset += 4, ConstBytes(octets_).first(size)));
    return message;
  }
  static rpc::ReplyShape Shape(size_t max_stream, const std::vector<size_t>& results = {}) {
    rpc::ReplyShape shape;
    shape.max_stream = max_stream;
    for (size_t length : results) shape.results.push_back({length, {}});
    return shape;
  }
  ByteVector stream_, octets_;
  CallConditions conditions_;
};

TEST_F(CallPlanTest, OffersNoChunksForAShortCallAndReply) {
  std::optional<CallPlan> plan = PlanCall(Call(1024 - 28), Shape(1024 - 28), conditions_);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->long_call);
  EXPECT_EQ(plan->reduce_from, CallPlan::kNone);
  EXPECT_EQ(plan->write_chunks, 0u);
  EXPECT_EQ(plan->reply_chunk, 0u);
}

TEST_F(CallPlanTest, OffersAReplyChunkOnlyIfTheReplyMayNotFitInline) {
  EXPECT_EQ(PlanCall(Call(100), Shape(1024 - 28), conditions_)->reply_chunk, 0u);
  EXPECT_EQ(PlanCall(Call(100), Shape(1024 - 24), conditions_)->reply_chunk, 1000u);
}

TEST_F(CallPlanTest, KeepsAShortPayloadInline) {
  std::optional<CallPlan> plan = PlanCall(Call(100, {300, 5}), Shape(100), conditions_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->reduce_from, CallPlan::kNone);
  EXPECT_FALSE(plan->long_call);
}

TEST_F(CallPlanTest, ReducesTheLongestPayloadsUntilTheRestFits) {
  rpc::Message call = Call(100, {300, 900, 200});
  std::optional<CallPlan> plan = PlanCall(call, Shape(100), conditions_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->reduce_from, 900u);
  EXPECT_FALSE(plan->reduces(call.items[0]));
  EXPECT_TRUE(plan->reduces(call.items[1]));
  EXPECT_FALSE(plan->long_call);
}

TEST_F(CallPlanTest, ReducesLongPayloadsEvenIfTheyFitInline) {
  conditions_.call_threshold = 65536;
  EXPECT_EQ(PlanCall(Call(100, {4095}), Shape(100), conditions_)->reduce_from, CallPlan::kNone);
  EXPECT_EQ(PlanCall(Call(100, {4096}), Shape(100), conditions_)->reduce_from, 4096u);
}

// The payload of these calls begins at 44 of the stream; with the header of 36 octets, at 80 of the Send.
TEST_F(CallPlanTest, PadsLongPayloadsOfFittingCalls) {
  conditions_.padding = 128;
  std::optional<CallPlan> plan = PlanCall(Call(100, {512}), Shape(100), conditions_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->padding, 128u);
  EXPECT_EQ(plan->reduce_from, CallPlan::kNone);
  EXPECT_EQ(PlanCall(Call(100, {511}), Shape(100), conditions_)->padding, 0u) << "too short";
  EXPECT_EQ(PlanCall(Call(600), Shape(100), conditions_)->padding, 0u) << "no payload";
  EXPECT_EQ(PlanCall(Call(100, {10, 600}), Shape(100), conditions_)->padding, 128u) << "a short payload has no pad";

  const size_t fits = 1024 - (36 + 48 + 100);
  EXPECT_EQ(PlanCall(Call(100, {fits}), Shape(100), conditions_)->padding, 128u);
  plan = PlanCall(Call(100, {fits + 1}), Shape(100), conditions_);
  EXPECT_EQ(plan->padding, 0u) << "the pad is too much";
  EXPECT_EQ(plan->reduce_from, CallPlan::kNone);
  plan = PlanCall(Call(100, {1024 - 128 + 1}), Shape(100), conditions_);
  EXPECT_EQ(plan->padding, 0u);
  EXPECT_EQ(plan->reduce_from, 1024u - 128 + 1) << "the payload is too much";
}

TEST_F(CallPlanTest, PadsCallsThatOfferAReplyChunk) {
  conditions_.padding = 128;
  const size_t fits = 1024 - (36 + 20 + 28 + 100);
  std::optional<CallPlan> plan = PlanCall(Call(100, {fits}), Shape(2000), conditions_);
  EXPECT_EQ(plan->padding, 128u);
  EXPECT_EQ(plan->reply_chunk, 2000u);
  EXPECT_EQ(PlanCall(Call(100, {fits + 1}), Shape(2000), conditions_)->padding, 0u);
}

TEST_F(CallPlanTest, WithPaddingPayloadsThatFitGoInline) {
  conditions_.call_threshold = 65536;
  conditions_.padding = 4096;
  std::optional<CallPlan> plan = PlanCall(Call(100, {60'000}), Shape(100), conditions_);
  EXPECT_EQ(plan->padding, 4096u);
  plan = PlanCall(Call(100, {65'000}), Shape(100), conditions_);
  EXPECT_EQ(plan->padding, 0u);
  EXPECT_EQ(plan->reduce_from, CallPlan::kNone) << "it fits without its pad";
  plan = PlanCall(Call(100, {66'000}), Shape(100), conditions_);
  EXPECT_EQ(plan->reduce_from, 66'000u);
}

TEST_F(CallPlanTest, WithoutChunksThereAreNoPads) {
  conditions_.padding = 128;
  conditions_.chunks = false;
  EXPECT_EQ(PlanCall(Call(100, {600}), Shape(100), conditions_)->padding, 0u);
}

TEST_F(CallPlanTest, PutsALongStreamAndItsShortPayloadsIntoAPositionZeroChunk) {
  rpc::Message call = Call(1500, {100, 5000});
  std::optional<CallPlan> plan = PlanCall(call, Shape(100), conditions_);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->long_call);
  EXPECT_FALSE(plan->reduces(call.items[0]));
  EXPECT_TRUE(plan->reduces(call.items[1]));
}

TEST_F(CallPlanTest, CountsTheReplyChunkAsPartOfTheHeader) {
  EXPECT_FALSE(PlanCall(Call(1024 - 28), Shape(1024 - 28), conditions_)->long_call);
  EXPECT_FALSE(PlanCall(Call(1024 - 28 - 20), Shape(2000), conditions_)->long_call);
  EXPECT_TRUE(PlanCall(Call(1024 - 28 - 16), Shape(2000), conditions_)->long_call);
}

TEST_F(CallPlanTest, OffersAWriteChunkIfAResultMayNotFitInline) {
  std::optional<CallPlan> plan = PlanCall(Call(100), Shape(100, {1024 - 128}), conditions_);
  EXPECT_EQ(plan->write_chunks, 0u);
  plan = PlanCall(Call(100), Shape(100, {1024 - 127}), conditions_);
  EXPECT_EQ(plan->write_chunks, 1u);
  EXPECT_EQ(plan->reply_chunk, 0u);
}

TEST_F(CallPlanTest, OffersWriteChunksForLongResultsEvenIfTheyFitInline) {
  conditions_.reply_threshold = 65536;
  EXPECT_EQ(PlanCall(Call(100), Shape(100, {4095}), conditions_)->write_chunks, 0u);
  EXPECT_EQ(PlanCall(Call(100), Shape(100, {4096}), conditions_)->write_chunks, 1u);
}

TEST_F(CallPlanTest, OffersAChunkForEveryResultUpToTheLastOneWithOctets) {
  EXPECT_EQ(PlanCall(Call(100), Shape(100, {0, 10, 0, 5000, 0}), conditions_)->write_chunks, 4u);
}

TEST_F(CallPlanTest, OffersBothAWriteListAndAReplyChunk) {
  std::optional<CallPlan> plan = PlanCall(Call(100), Shape(3000, {5000}), conditions_);
  EXPECT_EQ(plan->write_chunks, 1u);
  EXPECT_EQ(plan->reply_chunk, 3000u);
}

TEST_F(CallPlanTest, PutsShortResultsIntoTheReplyChunkOfALongStream) {
  std::optional<CallPlan> plan = PlanCall(Call(100), Shape(3000, {5}), conditions_);
  EXPECT_EQ(plan->write_chunks, 0u);
  EXPECT_EQ(plan->reply_chunk, 3008u);
}

TEST_F(CallPlanTest, AllowsOnlyShortMessagesWithoutChunks) {
  conditions_.chunks = false;
  EXPECT_TRUE(PlanCall(Call(100, {500}), Shape(100, {500}), conditions_));
  EXPECT_FALSE(PlanCall(Call(100, {1000}), Shape(100), conditions_));
  EXPECT_FALSE(PlanCall(Call(100), Shape(100, {1000}), conditions_));
  EXPECT_FALSE(PlanCall(Call(100), Shape(1000), conditions_));
}

TEST_F(CallPlanTest, RefusesResultsTooLongForASegmentOrAHeader) {
  EXPECT_FALSE(PlanCall(Call(100), Shape(size_t{1} << 32), conditions_));
  EXPECT_FALSE(PlanCall(Call(100), Shape(100, {size_t{1} << 32}), conditions_));
  EXPECT_FALSE(PlanCall(Call(100), Shape(100, std::vector<size_t>(100, 5000)), conditions_))
      << "the header would be too long";
}

}  // namespace
}  // namespace penstock::rpcrdma
