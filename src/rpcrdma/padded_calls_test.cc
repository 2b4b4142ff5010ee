// Tests of calls in RDMA_MSGP (RFC 5666 §3.9): a client and a server that have agreed on padding, and hostile clients.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rpcrdma/padding.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

constexpr PrivateData kLongSends{.remote_invalidation = true, .send_size = 80 << 10, .receive_size = 80 << 10};

class PaddedCallTest : public testing::TestWithParam<uint32_t> {
 protected:
  PaddedCallTest() {
    rig_.server_options.private_data = rig_.client_options.private_data = kLongSends;
    rig_.server_options.limits.padding = GetParam();
    rig_.Start();
    rig_.client->SetPadding(GetParam());
  }
  ~PaddedCallTest() override { rig_.Finish(); }

  // Whether all payloads so far were at a multiple of the boundary in their receive buffers.
  bool AllAreAligned() const {
    return std::ranges::all_of(rig_.handler.argument_offsets(), [](size_t at) { return at % GetParam() == 0; });
  }

  Rig rig_;
};

INSTANTIATE_TEST_SUITE_P(Boundaries, PaddedCallTest, testing::Values(64, 128, 256, 512, 1024, 2048, 4096));

TEST_P(PaddedCallTest, PayloadsOfEverySizeArriveAligned) {
  uint32_t xid = 0;
  for (const size_t kib : {4, 8, 16, 32, 64}) {
    for (const size_t size : {kib << 10, (kib << 10) - 1, (kib << 10) + 3}) {
      EXPECT_TRUE(rig_.CallAndCheck({.xid = ++xid, .arguments = {size}})) << size;
    }
  }
  EXPECT_EQ(rig_.handler.argument_offsets().size(), xid);
  EXPECT_TRUE(AllAreAligned());
  EXPECT_EQ(rig_.network.stats().reads, 0u) << "the server reads nothing by RDMA";
}

TEST_P(PaddedCallTest, PayloadsAtEveryOffsetArriveAligned) {
  uint32_t xid = 0;
  for (size_t filler = 0; filler < GetParam(); filler += 4) {
    EXPECT_TRUE(rig_.CallAndCheck({.xid = ++xid, .filler = filler, .arguments = {4096}})) << filler;
  }
  EXPECT_EQ(rig_.handler.argument_offsets().size(), xid);
  EXPECT_TRUE(AllAreAligned());
  EXPECT_EQ(rig_.network.stats().reads, 0u);
}

TEST_P(PaddedCallTest, ChunksForTheReplyMoveThePads) {
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1, .arguments = {5000}, .reply_filler = 100'000}));
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 2, .arguments = {5000}, .results = {9000, 100}}));
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 3, .arguments = {5000}, .reply_filler = 100'000, .results = {9000}}));
  EXPECT_EQ(rig_.handler.argument_offsets().size(), 3u);
  EXPECT_TRUE(AllAreAligned());
  EXPECT_GT(rig_.network.stats().writes, 0u);
  EXPECT_EQ(rig_.network.stats().reads, 0u);
}

TEST_P(PaddedCallTest, EachLongPayloadHasItsPad) {
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1, .arguments = {600, 5000, 512, 513}}));
  EXPECT_EQ(rig_.handler.argument_offsets().size(), 4u);
  EXPECT_TRUE(AllAreAligned());
}

TEST_P(PaddedCallTest, ShortPayloadsAndCallsThatDoNotFitGoAsBefore) {
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1, .arguments = {511}}));
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 2, .arguments = {0}}));
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 3, .filler = 5000}));
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 4, .arguments = {100'000}}));
  EXPECT_EQ(rig_.network.stats().reads, 1u);
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 5, .filler = 100'000, .arguments = {5000}}));
}

// The octets of the requests, as a server without padding sees them.
TEST(PaddedCall, AServerWithoutAnAgreementRefusesIt) {
  Rig rig;
  rig.Start();
  rig.client->SetPadding(512);
  const auto reply = rig.Call({.xid = 1, .arguments = {600}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error(), rpc::CallError::kRefused);
  EXPECT_TRUE(rig.CallAndCheck({.xid = 2, .arguments = {500}})) << "the connection goes on";
  rig.Finish();
}

// Sends calls that the test pads itself. The server has agreed on a boundary of 256 octets.
class PaddedResponderTest : public ResponderTest {
 protected:
  PaddedResponderTest() {
    rig_.server_options.limits.padding = kBoundary;
    Connect();
  }

  // A call with one payload, and with a pad of `pad` octets of this value in front of it. The stream of the call has 28
  // octets up to the length of the payload, so the payload would begin at octet 64 of the Send.
  ByteVector PaddedCall(size_t size, size_t pad, std::byte value = {}) {
    const ByteVector octets = ArgumentOctets(kXid, 0, size);
    return Concat({Words({kXid, 1, 10, kMsgp, kBoundary, 512, 0, 0, 0}), Stream({.xid = kXid, .arguments = {size}}),
                   ByteVector(pad, value), octets, ByteVector(RoundUp(size, 4) - size)});
  }
  void ExpectGoodAnswer(ConstBytes call) { ExpectAnswer(call, Words({kXid, 1, 10, kMsg, 0, 0, 0, kXid, 1, 0, 0})); }
  // The reply of TestHandler to a call that it cannot decode is the same, but the handler counts it.
  static constexpr uint32_t kBoundary = 256;
  static constexpr size_t kPad = 256 - 64;
};

TEST_F(PaddedResponderTest, ServesPaddedAndOtherCalls) {
  ExpectGoodAnswer(PaddedCall(512, kPad));
  ExpectGoodAnswer(PaddedCall(1021, kPad));
  ExpectGoodAnswer(PaddedCall(511, 0));
  EXPECT_EQ(rig_.handler.argument_offsets(), (std::vector<size_t>{256, 256, 64}));
  ExpectGoodHealth();
}

// The draft wants no overhead from pads at the receiver (§2.8), as RFC 4506 §3 wants none from padding.
TEST_F(PaddedResponderTest, IgnoresTheContentsOfPads) { ExpectGoodAnswer(PaddedCall(600, kPad, std::byte{0xff})); }

TEST_F(PaddedResponderTest, AThresholdAbove512HoldsForItsCall) {
  ByteVector call = PaddedCall(600, 0);
  StoreBig(call.data() + 20, 601u);
  ExpectGoodAnswer(call);
  StoreBig(call.data() + 20, 0xffffffffu);
  ExpectGoodAnswer(call);
  call = PaddedCall(600, kPad);
  StoreBig(call.data() + 20, 600u);
  ExpectGoodAnswer(call);
}

TEST_F(PaddedResponderTest, RepliesToOtherTermsWithErrChunk) {
  const ByteVector call = PaddedCall(600, kPad);
  for (const uint32_t alignment : {0u, 1u, 3u, 64u, 255u, 512u, 1u << 31, 0xffffffffu}) {
    ByteVector other = call;
    StoreBig(other.data() + 16, alignment);
    ExpectChunkError(other);
  }
  for (const uint32_t threshold : {0u, 1u, 511u}) {
    ByteVector other = call;
    StoreBig(other.data() + 20, threshold);
    ExpectChunkError(other);
  }
  EXPECT_EQ(rig_.handler.calls(), 0u);
  ExpectGoodHealth();
}

TEST_F(PaddedResponderTest, RepliesToReadChunksInAPaddedCallWithErrChunkAndReadsNothing) {
  ByteVector octets = ArgumentOctets(kXid, 0, 600);
  Header header;
  header.fixed = {rpc::Xid(kXid), 1, 10, Procedure::kMsgp};
  header.alignment = kBoundary;
  header.threshold = 512;
  header.chunks.reads = {{24, Register(octets, rdma::Access::kRemoteRead)}};
  ExpectChunkError(Concat({OctetsOf(header), Stream({.xid = kXid, .arguments = {600}})}));
  header.chunks.reads[0].position = 0;
  ExpectChunkError(Concat({OctetsOf(header), Stream({.xid = kXid, .arguments = {600}})}));
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  ExpectGoodHealth();
}

TEST_F(PaddedResponderTest, RepliesToATruncatedHeaderOrAnotherXidWithErrChunk) {
  const ByteVector call = PaddedCall(600, kPad);
  for (size_t size = kMinimalHeader; size <= 36; size += 4) ExpectChunkError(ConstBytes(call).first(size));
  ByteVector other = call;
  StoreBig(other.data() + 36, kXid + 1);
  ExpectChunkError(other);
  EXPECT_EQ(rig_.handler.calls(), 0u);
  ExpectGoodHealth();
}

// RFC 8166 §4.6.1
TEST_F(PaddedResponderTest, DiscardsPaddedReplies) {
  ExpectSilence(Words({kXid, 1, 10, kMsgp, kBoundary, 512, 0, 0, 0, kXid, 1}));
  ExpectGoodHealth();
}

// The transport does not know where payloads are. So a call that ends within a pad is one with bad arguments: the
// program finds that, and only that call suffers.
TEST_F(PaddedResponderTest, ACallThatEndsWithinItsPadIsExecutedAsOneWithBadArguments) {
  const ByteVector call = PaddedCall(600, kPad);
  size_t sent = 0;
  for (size_t size = 68; size < call.size(); size += 4, ++sent) ExpectGoodAnswer(ConstBytes(call).first(size));
  EXPECT_EQ(rig_.handler.TakeFaults(), sent);
  ExpectGoodHealth();
}

}  // namespace
}  // namespace penstock::rpcrdma
