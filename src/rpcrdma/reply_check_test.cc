#include "rpcrdma/reply_check.h"

#include <gtest/gtest.h>

namespace penstock::rpcrdma {
namespace {

using rdma::Stag;

// The chunks that the call offers: a Write chunk of two segments, another of one segment, and a Reply chunk.
ChunkLists Offered() {
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add({Stag(1), 1000, 10});
  chunks.writes.Add({Stag(2), 1000, 20});
  chunks.writes.AddChunk();
  chunks.writes.Add({Stag(3), 1000, 30});
  chunks.has_reply = true;
  chunks.reply = {{Stag(4), 500, 40}, {Stag(5), 500, 50}};
  return chunks;
}

// A reply that leaves all of these chunks unused.
Header Unused() {
  Header reply;
  reply.chunks = Offered();
  for (size_t n = 0; n < 2; ++n) {
    for (Segment& segment : reply.chunks.writes.chunk(n)) segment.length = 0;
  }
  for (Segment& segment : reply.chunks.reply) segment.length = 0;
  return reply;
}

TEST(ReplyCheck, AcceptsUnusedAndPartlyUsedChunks) {
  Header reply = Unused();
  EXPECT_TRUE(CheckReply(Offered(), reply));
  reply.chunks.writes.chunk(0)[0].length = 1000;
  reply.chunks.writes.chunk(0)[1].length = 1;
  reply.chunks.writes.chunk(1)[0].length = 1000;
  EXPECT_TRUE(CheckReply(Offered(), reply));
  reply.fixed.procedure = Procedure::kNomsg;
  reply.chunks.reply[0].length = 17;
  EXPECT_TRUE(CheckReply(Offered(), reply));
}

TEST(ReplyCheck, AcceptsAShortReplyWithoutTheReplyChunk) {
  Header reply = Unused();
  reply.chunks.has_reply = false;
  reply.chunks.reply.clear();
  EXPECT_TRUE(CheckReply(Offered(), reply));
  reply.fixed.procedure = Procedure::kNomsg;
  EXPECT_EQ(CheckReply(Offered(), reply).error(), ReplyError::kProcedure);
}

ReplyError After(void (*change)(Header&)) {
  Header reply = Unused();
  change(reply);
  Result<void, ReplyError> result = CheckReply(Offered(), reply);
  EXPECT_FALSE(result);
  return result ? ReplyError{} : result.error();
}

TEST(ReplyCheck, RejectsListsThatDifferFromTheOfferedOnes) {
  EXPECT_EQ(After([](Header& reply) { reply.chunks.reads.emplace_back(); }), ReplyError::kReadList);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.Clear(); }), ReplyError::kWriteList);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.AddChunk(); }), ReplyError::kWriteList);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.Add({}); }), ReplyError::kWriteList);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.reply.pop_back(); }), ReplyError::kReplyChunk);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.chunk(0)[0].stag = Stag(9); }), ReplyError::kSegment);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.chunk(1)[0].offset = 9; }), ReplyError::kSegment);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.chunk(1)[0].length = 1001; }), ReplyError::kSegment);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.reply[1].stag = Stag(9); }), ReplyError::kSegment);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.writes.chunk(0)[1].length = 1; }), ReplyError::kNotInOrder);
  EXPECT_EQ(After([](Header& reply) { reply.chunks.reply[0].length = 1; }), ReplyError::kProcedure);
  EXPECT_EQ(After([](Header& reply) { reply.fixed.procedure = Procedure::kNomsg; }), ReplyError::kProcedure);
}

TEST(ReplyCheck, RejectsAReplyChunkThatWasNotOffered) {
  Header reply;
  reply.chunks.has_reply = true;
  EXPECT_EQ(CheckReply({}, reply).error(), ReplyError::kReplyChunk);
}

}  // namespace
}  // namespace penstock::rpcrdma
