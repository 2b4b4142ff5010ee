#include "rpcrdma/padding.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/connection_control.h"
#include "rpcrdma/test_bytes.h"
#include "xdr/decoder.h"

namespace penstock::rpcrdma {
namespace {

constexpr uint32_t kBoundaries[] = {64, 128, 256, 512, 1024, 2048, 4096};

TEST(Padding, BoundariesArePowersOfTwoBetween64And4096) {
  for (const uint32_t boundary : kBoundaries) {
    EXPECT_EQ(rpc::PaddingWithin(boundary), boundary);
    EXPECT_EQ(rpc::PaddingWithin(2 * boundary - 1), boundary);
  }
  for (const uint32_t too_small : {0u, 1u, 32u, 63u}) EXPECT_EQ(rpc::PaddingWithin(too_small), 0u);
  EXPECT_EQ(rpc::PaddingWithin(0xffffffff), 4096u);
  EXPECT_EQ(rpc::Grant({.padding = 1000}, {.padding = 2048}).padding, 512u);
  EXPECT_EQ(rpc::Grant({.padding = 1000}, {.padding = 128}).padding, 128u);
  EXPECT_EQ(rpc::Grant({.padding = 1000}, {}).padding, 0u);
}

TEST(Padding, MovesEveryPositionToTheNextBoundaryOfTheSend) {
  for (const uint32_t boundary : kBoundaries) {
    for (size_t header = 36; header < 200; header += 4) {
      const xdr::Padding padding = PaddingOf(boundary, header);
      for (size_t position = 0; position < 2 * boundary; position += 4) {
        const size_t pad = padding.PadAt(position, 512);
        EXPECT_LT(pad, boundary);
        EXPECT_EQ((header + position + pad) % boundary, 0u);
      }
    }
  }
}

TEST(Padding, ShortPayloadsAndOtherMessagesHaveNone) {
  EXPECT_EQ(PaddingOf(64, 36).PadAt(0, 511), 0u);
  EXPECT_EQ(PaddingOf(64, 36).PadAt(0, 512), 28u);
  EXPECT_EQ(PaddingOf(0, 36).PadAt(0, 5000), 0u);
  EXPECT_EQ(xdr::Padding().PadAt(0, 5000), 0u);
}

TEST(Padding, AMessageHasPadsIfOnePayloadIsLongEnough) {
  const ByteVector stream = Pattern(40), octets = Pattern(512);
  rpc::Message message;
  message.stream = Slice::Borrowed(stream);
  EXPECT_FALSE(HasPads(message, PaddingOf(64, 36)));
  message.items = {ItemAt(12, ConstBytes(octets).first(511))};
  EXPECT_FALSE(HasPads(message, PaddingOf(64, 36)));
  message.items.push_back(ItemAt(20, octets));
  EXPECT_TRUE(HasPads(message, PaddingOf(64, 36)));
  EXPECT_FALSE(HasPads(message, PaddingOf(0, 36)));
}

TEST(Padding, ZerosStandBetweenTheLengthAndTheOctets) {
  const ByteVector stream = Pattern(24, 1), octets = Pattern(513, 2);
  rpc::Message message;
  message.stream = Slice::Borrowed(stream);
  message.items = {ItemAt(20, octets)};
  const xdr::Padding padding = PaddingOf(64, 36);
  rdma::Gather gather;
  AppendPadded(message, padding, gather);
  const ConstBytes pieces = stream;
  EXPECT_EQ(Flat(gather), Concat({pieces.first(20), ByteVector(8), octets, ByteVector(3), pieces.subspan(20)}));
  EXPECT_EQ(Flat(gather).size(), PaddedSize(message, padding));
}

TEST(Padding, EarlierPadsAndPayloadsCount) {
  const ByteVector stream = Pattern(60, 1), octets = Pattern(1000, 2);
  rpc::Message message;
  message.stream = Slice::Borrowed(stream);
  const ConstBytes all = octets;
  message.items = {ItemAt(16, all.first(600)), ItemAt(24, all.first(7)), ItemAt(32, {}), ItemAt(44, all)};
  for (const uint32_t boundary : kBoundaries) {
    for (size_t header = 36; header < 36 + 64; header += 4) {
      const xdr::Padding padding = PaddingOf(boundary, header);
      rdma::Gather gather;
      AppendPadded(message, padding, gather);
      const ByteVector flat = Flat(gather);
      ASSERT_EQ(flat.size(), PaddedSize(message, padding));
      const size_t first = RoundUp(header + 16, boundary) - header;
      EXPECT_TRUE(Equal(ConstBytes(flat).subspan(first, 600), all.first(600)));
      const size_t second = first + 600 + 8;
      EXPECT_TRUE(Equal(ConstBytes(flat).subspan(second, 7), all.first(7)));
      const size_t last = RoundUp(header + second + 8 + 20, boundary) - header;
      EXPECT_TRUE(Equal(ConstBytes(flat).subspan(last, 1000), all)) << boundary << " " << header;
      EXPECT_EQ(flat.size(), last + 1000 + 16);
    }
  }
}

// The decoder finds the octets where AppendPadded() has put them.
TEST(Padding, TheDecoderSkipsThePads) {
  const ByteVector octets = Pattern(700, 3);
  const ByteVector stream = Words({1, 700, 2, 5, 3, 700, 4});
  rpc::Message message;
  message.stream = Slice::Borrowed(stream);
  message.items = {ItemAt(8, octets), ItemAt(16, ConstBytes(octets).first(5)), ItemAt(24, octets)};
  for (const uint32_t boundary : kBoundaries) {
    const xdr::Padding padding = PaddingOf(boundary, 56);
    rdma::Gather gather;
    AppendPadded(message, padding, gather);
    const ByteVector flat = Flat(gather);
    rpc::Message received = rpc::Message::Whole(Slice::Borrowed(flat));
    received.padding = padding;
    xdr::Decoder decoder(received);
    for (uint32_t n = 1; n <= 4; ++n) {
      uint32_t word = 0;
      ASSERT_TRUE(decoder.U32(word));
      EXPECT_EQ(word, n);
      if (n == 4) break;
      Data data;
      ASSERT_TRUE(decoder.Payload(data, 1000));
      EXPECT_TRUE(Equal(data.bytes(), ConstBytes(octets).first(n == 2 ? 5 : 700)));
    }
    EXPECT_TRUE(decoder.Finish());
    EXPECT_EQ(decoder.pads(), flat.size() - message.flat_size());
  }
}

}  // namespace
}  // namespace penstock::rpcrdma
