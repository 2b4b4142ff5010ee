#include "xdr/encoder.h"

#include <gtest/gtest.h>

#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using testing::Hex;

class EncoderTest : public ::testing::Test {
 protected:
  BufferPool pool_;
  Encoder encoder_{pool_};
};

TEST_F(EncoderTest, WritesBigEndianWords) {
  encoder_.U32(1);
  encoder_.I32(-1);
  encoder_.U64(0x0102030405060708);
  encoder_.Bool(true);
  EXPECT_EQ(Hex(encoder_.Finish().stream.bytes()), "00000001 ffffffff 01020304 05060708 00000001");
}

TEST_F(EncoderTest, PadsWithZerosEvenInAReusedBuffer) {
  {
    const BufferRef used = pool_.Allocate(512);
    std::fill(used->bytes().begin(), used->bytes().end(), std::byte{0xff});
  }
  encoder_.String("a");
  encoder_.Fixed(AsBytes("bcdef"));
  encoder_.Opaque(AsBytes("ghij"));
  encoder_.Opaque({});
  EXPECT_EQ(Hex(encoder_.Finish().stream.bytes()), "00000001 61000000 62636465 66000000 00000004 6768696a 00000000");
}

TEST_F(EncoderTest, GrowsAsNeeded) {
  for (uint32_t i = 0; i < 100'000; ++i) encoder_.U32(i);
  const Message message = encoder_.Finish();
  ASSERT_EQ(message.stream.size(), 400'000u);
  for (uint32_t i = 0; i < 100'000; ++i) ASSERT_EQ(LoadBig<uint32_t>(message.stream.data() + 4 * i), i);
}

TEST_F(EncoderTest, KeepsPayloadsOutOfTheStream) {
  encoder_.U32(9);
  encoder_.Payload(Slice::Borrowed(AsBytes("hello")));
  encoder_.Payload(Data());
  EXPECT_EQ(encoder_.size(), 4u + 4 + 8 + 4);
  EXPECT_EQ(encoder_.reduced_size(), 12u);
  const Message message = encoder_.Finish();
  EXPECT_EQ(Hex(message.stream.bytes()), "00000009 00000005 00000000");
  ASSERT_EQ(message.items.size(), 2u);
  EXPECT_EQ(message.items[0].offset, 8u);
  EXPECT_EQ(AsText(message.items[0].data.bytes()), "hello");
  EXPECT_EQ(message.items[1].offset, 12u);
  EXPECT_EQ(message.flat_size(), 20u);
}

TEST_F(EncoderTest, RewindsTheStreamAndThePayloads) {
  encoder_.U32(1);
  encoder_.Payload(Slice::Borrowed(AsBytes("a")));
  const Encoder::Mark mark = encoder_.mark();
  encoder_.Payload(Slice::Borrowed(AsBytes("b")));
  encoder_.U32(2);
  encoder_.Rewind(mark);
  EXPECT_EQ(encoder_.size(), 12u);
  EXPECT_EQ(encoder_.payload_count(), 1u);
  encoder_.U32(3);
  const Message message = encoder_.Finish();
  EXPECT_EQ(Hex(message.stream.bytes()), "00000001 00000001 00000003");
  EXPECT_EQ(message.items.size(), 1u);
}

TEST_F(EncoderTest, PatchesWrittenOctets) {
  encoder_.U64(0);
  encoder_.PatchU32(4, 7);
  EXPECT_EQ(Hex(encoder_.Finish().stream.bytes()), "00000000 00000007");
}

TEST_F(EncoderTest, StartsANewMessageAfterFinish) {
  encoder_.Payload(Slice::Borrowed(AsBytes("a")));
  const Message first = encoder_.Finish();
  EXPECT_EQ(encoder_.size(), 0u);
  encoder_.U32(2);
  const Message second = encoder_.Finish();
  EXPECT_EQ(Hex(first.stream.bytes()), "00000001");
  EXPECT_EQ(Hex(second.stream.bytes()), "00000002");
  EXPECT_TRUE(second.items.empty());
}

TEST_F(EncoderTest, CopiesTheOctetsSinceAMark) {
  encoder_.U32(1);
  const auto mark = encoder_.mark();
  std::string data = "abc";
  encoder_.Payload(Slice::Borrowed(AsBytes(data)));
  encoder_.U32(2);
  const Message copy = encoder_.CopySince(mark);
  data = "xyz";
  EXPECT_EQ(Hex(copy.stream.bytes()), "00000003 00000002");
  ASSERT_EQ(copy.items.size(), 1u);
  EXPECT_EQ(copy.items[0].offset, 4u);
  EXPECT_EQ(AsText(copy.items[0].data.bytes()), "abc");
  EXPECT_EQ(encoder_.size(), 4u + 8u + 4u);
}

TEST_F(EncoderTest, AppendsACopyWithItsPayloads) {
  encoder_.U32(1);
  encoder_.Payload(Slice::Borrowed(AsBytes("abc")));
  const Message copy = encoder_.CopySince({});
  Encoder other(pool_);
  other.U64(7);
  other.Append(copy);
  EXPECT_EQ(other.size(), 8u + 4u + 8u);
  const Message message = other.Finish();
  EXPECT_EQ(Hex(message.stream.bytes()), "00000000 00000007 00000001 00000003");
  ASSERT_EQ(message.items.size(), 1u);
  EXPECT_EQ(message.items[0].offset, 16u);
}

TEST_F(EncoderTest, AllocatesNoBufferForAnEmptyMessage) {
  const size_t before = pool_.outstanding();
  EXPECT_TRUE(encoder_.Finish().empty());
  EXPECT_EQ(pool_.outstanding(), before);
}

}  // namespace
}  // namespace penstock::xdr
