// Tests of a complete responder against calls that the tests make by hand. Each case states the reply that it expects.
#include "rpcrdma/responder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/loop_turn.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

TEST_F(ResponderTest, RepliesToAPlainCall) {
  Connect();
  ExpectGoodHealth();
}

TEST_F(ResponderTest, CallsThatTakeLongDoNotHoldUpOtherWorkOfTheServer) {
  constexpr uint32_t kCalls = 8;
  Connect();
  size_t calls = 0;
  rig_.handler.set_on_call([&](rpc::Xid, const rpc::Peer&) {
    rig_.world.Spend(2 * LoopTurn::kLimit);
    ++calls;
  });
  for (uint32_t i = 0; i < kCalls; ++i) {
    Send(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + i}), kXid + i));
  }
  // One event runs between two calls of this function.
  size_t seen = 0, most = 0;
  ASSERT_TRUE(rig_.world.RunUntil([&] {
    most = std::max(most, calls - seen);
    seen = calls;
    return calls == kCalls;
  }));
  EXPECT_EQ(most, 1u);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(received_.size(), kCalls);
}

TEST_F(ResponderTest, GrantsTheRequestedCreditsUpToTheLimitAndNeverZero) {
  rig_.server_options.responder.credits = 16;
  Connect();
  ByteVector call = MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid}));
  for (auto [asked, granted] : {std::pair{0u, 1u}, {1u, 1u}, {16u, 16u}, {128u, 16u}, {0xffffffffu, 16u}}) {
    StoreBig(call.data() + 8, asked);
    std::vector<ByteVector> answers = Answers(call);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(LoadBig<uint32_t>(answers[0].data() + 8), granted);
  }
}

TEST_F(ResponderTest, GrantsMoreCreditsToAPeerThatUsesThoseThatItHas) {
  rig_.server_options.responder.credits = 16;
  rig_.server_options.responder.first_credits = 4;
  rig_.handler.set_delay(std::chrono::milliseconds(1));
  Connect();
  uint32_t sent = 0;
  // Sends so many calls at once, and returns the credits that the last reply grants.
  const auto granted_after = [&](uint32_t calls) {
    received_.clear();
    for (uint32_t i = 0; i < calls; ++i, ++sent) {
      ByteVector call = MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + sent}), kXid + sent);
      StoreBig(call.data() + 8, 128u);
      Send(call);
    }
    rig_.world.RunFor(std::chrono::seconds(1));
    EXPECT_EQ(received_.size(), calls);
    return received_.empty() ? 0u : LoadBig<uint32_t>(received_.back().data() + 8);
  };
  EXPECT_EQ(granted_after(1), 4u);
  EXPECT_EQ(granted_after(1), 4u);
  EXPECT_EQ(granted_after(2), 8u);
  EXPECT_EQ(granted_after(4), 16u);
  EXPECT_EQ(granted_after(16), 16u);
  for (uint32_t i = 0; i < 3 * CreditDemand::kQuietCalls; ++i) (void)granted_after(1);
  EXPECT_EQ(granted_after(1), 4u) << "after many calls, one at a time";
  EXPECT_EQ(granted_after(2), 8u);
  EXPECT_FALSE(lost_);
}

// RFC 8166 §3.3.3
TEST_F(ResponderTest, AcceptsMessagesOf1024OctetsWithAnyConfiguration) {
  rig_.server_options.private_data = {};
  Connect();
  const ByteVector call = MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid, .filler = 972}));
  ASSERT_EQ(call.size(), 1024u);
  ExpectAnswer(call, Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1, 0, 0}));
}

TEST_F(ResponderTest, DiscardsMessagesThatAreTooShort) {
  Connect();
  const ByteVector header = Words({kXid, 1, 10, kMsg, 0, 0, 0});
  for (size_t size = 0; size < header.size(); ++size) ExpectSilence(ConstBytes(header).first(size));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RepliesToOtherVersionsWithErrVers) {
  Connect();
  ExpectAnswer(Words({kXid, 2, 10, kMsg, 0, 0, 0, kXid, 0}), Words({kXid, 2, 10, kError, 1, 1, 1}));
  ExpectAnswer(Words({kXid, 0, 10, kMsg, 0, 0, 0, kXid, 0}), Words({kXid, 0, 10, kError, 1, 1, 1}));
  ExpectAnswer(Words({kXid, 2, 10, 99, 0, 0, 0, kXid, 0}), Words({kXid, 2, 10, kError, 1, 1, 1}));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, DiscardsErrorsDoneAndReplies) {
  Connect();
  ExpectSilence(Words({kXid, 1, 10, kError, 2}));
  ExpectSilence(Words({kXid, 1, 10, kError, 1, 1, 1}));
  ExpectSilence(Words({kXid, 1, 10, kError, 9, 1, 1}));
  ExpectSilence(Words({kXid, 2, 10, kError, 1, 1, 1}));
  ExpectSilence(Words({kXid, 1, 10, kDone}));
  ExpectSilence(Words({kXid, 1, 10, kDone, 0, 0, 0, 0}));
  ExpectSilence(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1}));  // a reply to an unknown call
  ExpectSilence(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 2}));  // neither call nor reply
  ExpectSilence(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid}));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RepliesToMalformedHeadersWithErrChunk) {
  Connect();
  ExpectChunkError(Words({kXid, 1, 10, 5, 0, 0, 0, kXid, 0}));
  ExpectChunkError(Words({kXid, 1, 10, 0xffffffff, 0, 0, 0, kXid, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kMsgp, 4, 4, 0, 0, 0, kXid, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kNomsg, 0, 0, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 0, 0, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 2, 0, 0, kXid, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 0, 0, 7, kXid, 0}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 0, 1, 0x10000000, 1, 2, 3}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 0, 1, 0xffffffff, 1, 2, 3}));
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 1, 40, 1, 2, 3}));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RepliesToALongCallWithoutAReadListWithErrChunk) {
  Connect();
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add({rdma::Stag(1), 100, 0});
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  chunks.writes.Clear();
  chunks.has_reply = true;
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  chunks.reply = {{rdma::Stag(1), 100, 0}};
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RepliesToMismatchedXidsWithErrChunk) {
  Connect();
  ExpectChunkError(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid + 1, 0}));
  // The same, but the responder must read the stream first.
  ByteVector stream = Words({kXid + 1, 0, 0, 0, 0, 0});
  ChunkLists chunks;
  chunks.reads = {{0, Register(stream, rdma::Access::kRemoteRead)}};
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  chunks.reads[0].target.length = 3;
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  chunks.reads[0].target.length = 0;
  ExpectChunkError(MessageOf(Procedure::kNomsg, chunks, {}));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RefusesImpossibleReadListsWithoutReading) {
  Connect();
  const ByteVector stream = Stream({.xid = kXid, .arguments = {100}});
  auto with = [](std::vector<ReadSegment> reads) {
    ChunkLists chunks;
    chunks.reads = std::move(reads);
    return chunks;
  };
  const Segment some{rdma::Stag(1), 100, 0}, huge{rdma::Stag(1), 0xffffffff, 0xffffffffffffffff};
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{30, some}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{0, some}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{4000, some}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{0xfffffffc, some}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{8, some}, {12, some}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with({{8, huge}}), stream));
  ExpectChunkError(MessageOf(Procedure::kMsg, with(std::vector<ReadSegment>(100, {8, huge})), stream));
  ExpectChunkError(
      MessageOf(Procedure::kMsg, with(std::vector<ReadSegment>(150, {8, {}})), {}));  // the call has no stream
  ExpectChunkError(MessageOf(Procedure::kNomsg, with({{8, some}}), {}));
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  ExpectGoodHealth();
}

TEST_F(ResponderTest, RefusesTooManySegments) {
  rig_.server_options.limits = {
      .max_read_segments = 3, .max_write_chunks = 3, .max_write_segments = 3, .max_reply_segments = 3};
  Connect();
  const ByteVector stream = Stream({.xid = kXid});
  ChunkLists chunks;
  chunks.reads.resize(4, {8, {}});
  ExpectChunkError(MessageOf(Procedure::kMsg, chunks, stream));
  chunks.Clear();
  for (int i = 0; i < 4; ++i) chunks.writes.AddChunk();
  ExpectChunkError(MessageOf(Procedure::kMsg, chunks, stream));
  chunks.Clear();
  chunks.has_reply = true;
  chunks.reply.resize(4);
  ExpectChunkError(MessageOf(Procedure::kMsg, chunks, stream));
  ExpectGoodHealth();
}

TEST_F(ResponderTest, ReassemblesACallFromSegmentsOfAllSizes) {
  Connect();
  TestCall call{.xid = kXid, .filler = 50, .arguments = {11, 3, 2000}};
  ByteVector stream = Stream(call);
  std::vector<ByteVector> arguments;
  for (size_t n = 0; n < 3; ++n) arguments.push_back(ArgumentOctets(kXid, n, call.arguments[n]));
  const uint32_t first =
      static_cast<uint32_t>(stream.size()) - 8;  // the position of the first payload; two lengths follow it
  for (bool long_call : {false, true}) {
    for (bool padded : {false, true}) {
      ChunkLists chunks;
      auto add = [&](uint32_t position, ByteVector& memory) {
        // Use segments of one octet, then one segment for the rest.
        Segment all = Register(memory, rdma::Access::kRemoteRead);
        for (uint32_t i = 0; i < std::min(all.length, 5u); ++i) {
          chunks.reads.push_back({position, {all.stag, 1, all.offset + i}});
        }
        if (all.length > 5) chunks.reads.push_back({position, {all.stag, all.length - 5, all.offset + 5}});
      };
      std::vector<ByteVector> memory = arguments;
      if (padded) {
        for (ByteVector& octets : memory) octets.resize(RoundUp(octets.size(), 4));
      }
      add(first + 12 + 4 + 4 + 4, memory[2]);  // not in the order of positions
      add(first, memory[0]);
      add(first + 12 + 4, memory[1]);
      if (long_call) add(0, stream);
      std::vector<ByteVector> answers = Answers(
          MessageOf(long_call ? Procedure::kNomsg : Procedure::kMsg, chunks, long_call ? ByteVector() : stream));
      ASSERT_EQ(answers.size(), 1u);
      EXPECT_EQ(answers[0], Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1, 0, 0}));
      EXPECT_EQ(rig_.handler.faults(), 0u) << long_call << padded;
      rig_.world.RunFor(std::chrono::seconds(1));
      regions_.clear();
      rig_.world.RunFor(std::chrono::seconds(1));
    }
  }
}

TEST_F(ResponderTest, FillsWriteChunksInOrderAndReturnsThem) {
  Connect();
  ByteVector memory(3000, std::byte{0xee});
  const Segment all = Register(memory, rdma::Access::kRemoteWrite);
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add({all.stag, 1000, all.offset});
  chunks.writes.Add({all.stag, 1000, all.offset + 1000});
  // The Linux client adds a segment for padding. Its handle lives as long as the connection.
  ByteVector pad(4, std::byte{0xee});
  chunks.writes.Add(Register(pad, rdma::Access::kRemoteWrite));
  chunks.writes.AddChunk();
  chunks.writes.Add({all.stag, 1000, all.offset + 2000});
  chunks.has_reply = true;
  chunks.reply = {{rdma::Stag(9), 100, 9}};

  std::vector<ByteVector> answers =
      Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .results = {1501}})));
  ASSERT_EQ(answers.size(), 1u);
  chunks.writes.chunk(0)[1].length = 501;
  chunks.writes.chunk(0)[2].length = 0;
  chunks.writes.chunk(1)[0].length = 0;
  chunks.reply[0].length = 0;
  EXPECT_EQ(answers[0], MessageOf(Procedure::kMsg, chunks, Words({kXid, 1, 0, 1, 1501})));
  EXPECT_TRUE(Equal(ConstBytes(memory).first(1501), ResultOctets(kXid, 0, 1501)));
  EXPECT_EQ(ByteVector(memory.begin() + 1501, memory.end()), ByteVector(1499, std::byte{0xee}))
      << "the responder must not write padding";
  EXPECT_EQ(pad, ByteVector(4, std::byte{0xee}));
  EXPECT_EQ(invalidated_, all.stag);
  EXPECT_TRUE(regions_[1]->valid()) << "the segment for padding serves other calls too";
}

TEST_F(ResponderTest, InvalidatesOnlyIfBothSidesSupportIt) {
  Connect({false, 4096, 4096});
  ByteVector memory(100);
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add(Register(memory, rdma::Access::kRemoteWrite));
  ASSERT_EQ(Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .results = {50}}))).size(), 1u);
  EXPECT_EQ(invalidated_, std::nullopt);
  EXPECT_TRUE(regions_[0]->valid());
}

TEST_F(ResponderTest, ReturnsTheResultOfAnEmptyWriteChunkInline) {
  Connect();
  ByteVector memory(100);
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.AddChunk();
  chunks.writes.Add(Register(memory, rdma::Access::kRemoteWrite));
  std::vector<ByteVector> answers =
      Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .results = {5, 6}})));
  ASSERT_EQ(answers.size(), 1u);
  chunks.writes.chunk(1)[0].length = 6;
  EXPECT_EQ(answers[0],
            MessageOf(Procedure::kMsg, chunks,
                      Concat({Words({kXid, 1, 0, 2, 5}), ResultOctets(kXid, 0, 5), ByteVector(3), Words({6})})));
  EXPECT_TRUE(Equal(ConstBytes(memory).first(6), ResultOctets(kXid, 1, 6)));
}

TEST_F(ResponderTest, WritesALongReplyToTheSegmentsOfTheReplyChunk) {
  Connect();
  ByteVector memory(6000);
  const Segment all = Register(memory, rdma::Access::kRemoteWrite);
  ChunkLists chunks;
  chunks.has_reply = true;
  chunks.reply = {{all.stag, 1, all.offset}, {all.stag, 4999, all.offset + 1}, {all.stag, 1000, all.offset + 5000}};
  std::vector<ByteVector> answers =
      Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .reply_filler = 5001})));
  ASSERT_EQ(answers.size(), 1u);
  chunks.reply[2].length = 16 + 5004 - 5000;
  EXPECT_EQ(answers[0], MessageOf(Procedure::kNomsg, chunks, {}));
  EXPECT_TRUE(Equal(ConstBytes(memory).first(5020),
                    Concat({Words({kXid, 1, 5001}), Pattern(5001, kXid), ByteVector(3), Words({0})})));
}

TEST_F(ResponderTest, ObeysTheThresholdOfThePeer) {
  Connect({false, 4096, 1024});
  const size_t room = 1024 - 28 - 16;
  std::vector<ByteVector> answers =
      Answers(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid, .reply_filler = room})));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].size(), 1024u);
  ExpectChunkError(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid, .reply_filler = room + 1})));
}

TEST_F(ResponderTest, InaccessibleMemoryEndsOnlyItsConnection) {
  for (bool read : {false, true}) {
    Connect();
    ChunkLists chunks;
    if (read) {
      chunks.reads = {{24, {rdma::Stag(0xbad), 100, 0}}};
    } else {
      chunks.writes.AddChunk();
      chunks.writes.Add({rdma::Stag(0xbad), 100, 0});
    }
    Send(MessageOf(Procedure::kMsg, chunks,
                   Stream({.xid = kXid, .arguments = std::vector<size_t>(read, 100), .results = {100}})));
    ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_; }));
    TearDown();
    lost_ = false;
  }
  Connect();
  ExpectGoodHealth();
}

// RFC 8166 §4.5.3: the same segments would end the next connection too.
TEST_F(ResponderTest, RefusesARepeatedCallWithTheSameInaccessibleMemory) {
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add({rdma::Stag(0xbad), 100, 0});
  const ByteVector call = MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .results = {100}}));
  Connect();
  Send(call);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_; }));
  endpoint_.reset();
  lost_ = false;
  Reconnect();
  ExpectChunkError(call);
  ExpectGoodHealth();
}

// RFC 8166 §4.5.4: otherwise the requester would wait for its reply and its credit for ever.
TEST_F(ResponderTest, DisconnectsIfACallHasNoReply) {
  rig_.handler.set_drop(true);
  Connect();
  EXPECT_EQ(Answers(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid}))), std::vector<ByteVector>());
  EXPECT_TRUE(lost_);
}

// RFC 8167 §4.1
TEST_F(ResponderTest, DistinguishesRepliesToTheServersCallsFromCalls) {
  Connect();
  ExpectGoodHealth();
  rpc::BackChannel& back = *rig_.handler.back_channel();
  const TestCall call{.xid = kXid, .reply_filler = 4};
  CallResult result;
  Spawn(Store(back.Call(EncodeCall(rig_.server_provider->buffers(), call), rig_.ShapeOf(call)), result));
  rig_.world.RunFor(std::chrono::milliseconds(1));
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(received_[0],
            Concat({Words({kXid, 1, rig_.server_options.requester.credits, kMsg, 0, 0, 0}), Stream(call)}));

  ExpectSilence(Words({kXid + 1, 1, 10, kMsg, 0, 0, 0, kXid + 1, 1}));  // a reply to a call that was never made
  ExpectSilence(Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid + 1, 1}));      // the header and the stream have different XIDs
  ExpectSilence(Words({kXid, 1, 10, kMsg, 7, 0, 0, kXid, 1}));          // a malformed header
  EXPECT_FALSE(result);
  // A call with the same XID in the other direction is another call.
  EXPECT_EQ(Answers(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid}))).size(), 1u);
  EXPECT_FALSE(result);
  ExpectSilence(Concat({Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1, 4}), Pattern(4, kXid), Words({0})}));
  ASSERT_TRUE(result && *result);
  EXPECT_TRUE(IsReplyTo(call, **result));
  result.reset();
  ExpectGoodHealth();
}

}  // namespace
}  // namespace penstock::rpcrdma
