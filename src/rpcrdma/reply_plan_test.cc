#include "rpcrdma/reply_plan.h"

#include <gtest/gtest.h>

#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

using rdma::Stag;

// The header of a call. `writes` and `reply` give the lengths of the segments of each chunk. Handles count from 1,
// through all chunks.
Header Call(const std::vector<std::vector<uint32_t>>& writes, const std::optional<std::vector<uint32_t>>& reply = {}) {
  Header header;
  header.chunks.reads = {{80, {Stag(99), 4, 0}}};
  uint32_t stag = 0;
  for (const auto& chunk : writes) {
    header.chunks.writes.AddChunk();
    for (uint32_t length : chunk) header.chunks.writes.Add({Stag(++stag), length, 1000 * stag});
  }
  header.chunks.has_reply = reply.has_value();
  for (uint32_t length : reply.value_or(std::vector<uint32_t>())) {
    header.chunks.reply.push_back({Stag(++stag), length, 1000 * stag});
  }
  return header;
}

class ReplyPlanTest : public testing::Test {
 protected:
  rpc::Message Reply(size_t stream, const std::vector<size_t>& payloads) {
    stream_ = Pattern(stream);
    octets_ = Pattern(1 << 20);
    rpc::Message message;
    message.stream = Slice::Borrowed(stream_);
    size_t offset = 28;
    for (size_t size : payloads) message.items.push_back(ItemAt(offset += 4, ConstBytes(octets_).first(size)));
    return message;
  }
  // Returns the form of the plan, and keeps its header in header_.
  std::optional<ReplyForm> Plan(const rpc::Message& reply, Header call) {
    std::optional<ReplyPlan> plan = PlanReply(reply, std::move(call), 1024);
    if (!plan) return std::nullopt;
    header_ = std::move(plan->header);
    return plan->form;
  }
  std::optional<rdma::Stag> Invalidated(Header call) {
    return PlanReply(Reply(0, {}), std::move(call), 1024)->invalidate;
  }
  std::vector<std::vector<uint32_t>> Writes() {
    std::vector<std::vector<uint32_t>> out;
    for (size_t n = 0; n < header_.chunks.writes.size(); ++n) {
      out.emplace_back();
      for (const Segment& segment : std::as_const(header_.chunks.writes).chunk(n)) out.back().push_back(segment.length);
    }
    return out;
  }
  std::vector<uint32_t> ReplyChunk() {
    std::vector<uint32_t> out;
    for (const Segment& segment : header_.chunks.reply) out.push_back(segment.length);
    return out;
  }

  ByteVector stream_, octets_;
  Header header_;
};

using Lists = std::vector<std::vector<uint32_t>>;

TEST_F(ReplyPlanTest, AShortReplyToACallWithoutChunksHasNoChunks) {
  EXPECT_EQ(Plan(Reply(100, {}), Call({})), ReplyForm::kShort);
  EXPECT_EQ(header_.fixed.procedure, Procedure::kMsg);
  EXPECT_TRUE(header_.chunks.empty()) << "the Read list of the call is gone too";
}

TEST_F(ReplyPlanTest, FillsSegmentsInOrderAndSetsTheRestToZero) {
  EXPECT_EQ(Plan(Reply(100, {1500}), Call({{1000, 1000, 1000}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{1000, 500, 0}}));
  EXPECT_EQ(std::as_const(header_.chunks.writes).chunk(0)[1], (Segment{Stag(2), 500, 2000}));
}

TEST_F(ReplyPlanTest, NeverWritesPadding) {
  EXPECT_EQ(Plan(Reply(100, {1001}), Call({{1001, 3}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{1001, 0}}));
}

TEST_F(ReplyPlanTest, PutsTheNthPayloadIntoTheNthChunk) {
  EXPECT_EQ(Plan(Reply(100, {10, 2000}), Call({{100}, {2000}, {300}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{10}, {2000}, {0}}));
}

TEST_F(ReplyPlanTest, APayloadOfLengthZeroTakesAChunk) {
  EXPECT_EQ(Plan(Reply(100, {0, 50}), Call({{100}, {100}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{0}, {50}}));
}

TEST_F(ReplyPlanTest, KeepsThePayloadOfAnEmptyChunkInline) {
  EXPECT_EQ(Plan(Reply(100, {50, 60}), Call({{}, {100}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{}, {60}}));
  EXPECT_FALSE(IsPlaced(header_.chunks.writes, 0));
  EXPECT_TRUE(IsPlaced(header_.chunks.writes, 1));
  EXPECT_FALSE(IsPlaced(header_.chunks.writes, 2));
}

TEST_F(ReplyPlanTest, ReturnsUnusedChunksWithAllTheirSegments) {
  EXPECT_EQ(Plan(Reply(100, {}), Call({{100, 100}, {}, {300}}, {{500, 500}})), ReplyForm::kShort);
  EXPECT_EQ(Writes(), (Lists{{0, 0}, {}, {0}}));
  EXPECT_EQ(ReplyChunk(), (std::vector<uint32_t>{0, 0}));
  EXPECT_TRUE(header_.chunks.has_reply);
}

TEST_F(ReplyPlanTest, CountsPayloadsWithoutChunksForTheInlineThreshold) {
  const size_t room = 1024 - 28 - 100;
  EXPECT_EQ(Plan(Reply(100, {room}), Call({})), ReplyForm::kShort);
  EXPECT_EQ(Plan(Reply(100, {room + 1}), Call({})), std::nullopt);
  EXPECT_EQ(Plan(Reply(100, {room - 3}), Call({})), ReplyForm::kShort) << "three octets of padding follow the payload";
}

TEST_F(ReplyPlanTest, UsesTheReplyChunkOnlyIfTheReplyDoesNotFitInline) {
  const size_t room = 1024 - 28 - 4 - 16;
  EXPECT_EQ(Plan(Reply(room, {}), Call({}, {{4000}})), ReplyForm::kShort);
  EXPECT_EQ(ReplyChunk(), std::vector<uint32_t>{0});
  EXPECT_EQ(Plan(Reply(room + 4, {}), Call({}, {{4000}})), ReplyForm::kLong);
  EXPECT_EQ(ReplyChunk(), std::vector<uint32_t>{static_cast<uint32_t>(room + 4)});
  EXPECT_EQ(header_.fixed.procedure, Procedure::kNomsg);
}

TEST_F(ReplyPlanTest, UsesTheWriteListAndTheReplyChunkTogether) {
  EXPECT_EQ(Plan(Reply(2000, {5000, 7}), Call({{5000}}, {{1500, 1500}})), ReplyForm::kLong);
  EXPECT_EQ(Writes(), (Lists{{5000}}));
  EXPECT_EQ(ReplyChunk(), (std::vector<uint32_t>{1500, 508})) << "the padded second payload is in the stream";
}

TEST_F(ReplyPlanTest, ReturnsNoPlanForAReplyThatDoesNotFit) {
  EXPECT_EQ(Plan(Reply(2000, {}), Call({})), std::nullopt);
  EXPECT_EQ(Plan(Reply(2000, {}), Call({}, {{}})), std::nullopt);
  EXPECT_EQ(Plan(Reply(2000, {}), Call({}, {{1000, 999}})), std::nullopt);
  EXPECT_EQ(Plan(Reply(100, {101}), Call({{100}})), std::nullopt) << "the payload would fit inline, but it has a chunk";
  EXPECT_EQ(Plan(Reply(2000, {}), Call({std::vector<uint32_t>(100, 1)}, {{4000}})), std::nullopt)
      << "the header alone is too long";
}

TEST_F(ReplyPlanTest, InvalidatesTheFirstHandleOfTheCall) {
  EXPECT_EQ(Invalidated(Call({{}, {1, 2}}, {{3}})), Stag(1));
  EXPECT_EQ(Invalidated(Call({}, {{3}})), Stag(1));
  EXPECT_EQ(Invalidated(Call({})), Stag(99));
  EXPECT_EQ(Invalidated(Header()), std::nullopt);
}

}  // namespace
}  // namespace penstock::rpcrdma
