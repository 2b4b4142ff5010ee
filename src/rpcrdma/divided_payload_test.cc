// Tests of payloads that a responder pulls in pieces, so that the call begins when the first piece has arrived.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "rpcrdma/pulled_pieces.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

constexpr size_t kSize = 1 << 20;
constexpr size_t kPiece = kSize / PulledPieces::kMost;

class DividedPayloadTest : public ResponderTest {
 protected:
  // A call with one payload of `size` octets, in chunks of `segment` octets of this memory.
  ByteVector CallWith(size_t size, uint32_t xid = kXid, size_t segment = kSize) {
    memory_ = ArgumentOctets(xid, 0, size);
    const ByteVector stream = Stream({.xid = xid, .arguments = {size}});
    ChunkLists chunks;
    for (size_t at = 0; at < size; at += segment) {
      const Bytes part = Bytes(memory_).subspan(at, std::min(segment, size - at));
      chunks.reads.push_back({static_cast<uint32_t>(stream.size()), Register(part, rdma::Access::kRemoteRead)});
    }
    return MessageOf(Procedure::kMsg, chunks, stream, xid);
  }
  ByteVector ReplyTo(uint32_t xid) { return Words({xid, 1, 10, kMsg, 0, 0, 0, xid, 1, 0, 0}); }

  ByteVector memory_;
};

TEST_F(DividedPayloadTest, ACallBeginsWithTheFirstPieceOfItsPayload) {
  Connect();
  ExpectAnswer(CallWith(kSize), ReplyTo(kXid));
  EXPECT_EQ(rig_.handler.arrived_at_start(), std::vector<size_t>{kPiece});
  EXPECT_EQ(rig_.handler.faults(), 0u) << "every octet has arrived in its place";
}

TEST_F(DividedPayloadTest, PiecesNeedNotEndWithSegments) {
  Connect();
  for (const size_t segment : {size_t{30'000}, size_t{100'000}, size_t{300'000}}) {
    ExpectAnswer(CallWith(kSize - 3, kXid, segment), ReplyTo(kXid));
    EXPECT_LT(rig_.handler.arrived_at_start().at(0), kSize - 3) << segment;
  }
}

TEST_F(DividedPayloadTest, AShortPayloadIsOnePiece) {
  Connect();
  ExpectAnswer(CallWith(PulledPieces::kShortest - 1), ReplyTo(kXid));
  EXPECT_EQ(rig_.handler.arrived_at_start(), std::vector<size_t>{PulledPieces::kShortest - 1});
}

TEST_F(DividedPayloadTest, ACallBesideOthersWaitsForItsWholePayload) {
  Connect();
  const ByteVector other = CallWith(kSize, kXid + 1);
  const ByteVector memory = std::exchange(memory_, {});
  Send(other);
  const std::vector<ByteVector> answers = Answers(CallWith(kSize, kXid));
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_EQ(rig_.handler.arrived_at_start(), std::vector<size_t>{kSize});
}

// The peer may use its memory again as soon as it has the reply.
TEST_F(DividedPayloadTest, TheReplyComesAfterThePayloadEvenIfTheCallDoesNotWaitForIt) {
  Connect();
  rig_.handler.set_hasty(true);
  received_.clear();
  Send(CallWith(kSize));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return !rig_.handler.arrived_at_start().empty(); }));
  ASSERT_EQ(rig_.handler.arrived_at_start(), std::vector<size_t>{kPiece});
  rig_.network.faults().leave_reads = true;
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_TRUE(received_.empty()) << "the server still reads";
  EXPECT_FALSE(lost_);
}

TEST_F(DividedPayloadTest, ACallWhosePayloadIsLostGetsNoReply) {
  Connect();
  Send(CallWith(kSize));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return !rig_.handler.arrived_at_start().empty(); }));
  endpoint_->Disconnect();
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(rig_.handler.lost_payloads(), 1u);
  EXPECT_EQ(rig_.handler.calls(), 0u);
}

TEST_F(DividedPayloadTest, AnAccessThatThePeerRefusesEndsTheCall) {
  Connect();
  const ByteVector call = CallWith(kSize, kXid, kPiece);
  regions_.back().reset();  // the last piece
  Send(call);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(rig_.handler.lost_payloads(), 1u);
  EXPECT_TRUE(lost_);
}

}  // namespace
}  // namespace penstock::rpcrdma
