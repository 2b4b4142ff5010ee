#include "client/nfs4/attributes.h"

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "xdr/encoder.h"

namespace penstock::client::v4 {
namespace {

class AttributesTest : public testing::Test {
 protected:
  // What the encoder has written, as the values of `mask`.
  nfs4::fattr4 Encoded(const nfs4::bitmap4& mask) {
    message = encoder.Finish();
    return {mask, message.stream.bytes()};
  }

  BufferPool pool;
  xdr::Encoder encoder{pool};
  xdr::Message message;
};

// The numbers as RFC 8881 §5.8 has them, so that nobody exchanges two words of the mask.
TEST_F(AttributesTest, AreAskedForByTheirNumbers) {
  EXPECT_EQ(FileAttributes(), (nfs4::bitmap4{1u << 1 | 1u << 4, 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 21}));
  EXPECT_EQ(EntryAttributes()[0], FileAttributes()[0] | 1u << 11);
  EXPECT_EQ(LimitAttributes(), (nfs4::bitmap4{1u << 10 | 1u << 30 | 1u << 31}));
}

TEST_F(AttributesTest, AreDecodedInTheOrderOfTheirNumbers) {
  encoder.U32(2);             // type: a directory
  encoder.U64(4096);          // size
  encoder.U32(0750);          // mode
  encoder.U32(3);             // numlinks
  encoder.String("1000");     // owner
  encoder.String("staff@x");  // owner_group
  encoder.I64(-5);            // time_modify
  encoder.U32(999'999'999);
  const auto decoded = DecodeAttributes(Encoded(FileAttributes()));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, FileType::kDirectory);
  EXPECT_EQ(decoded->size, 4096u);
  EXPECT_EQ(decoded->mode, 0750u);
  EXPECT_EQ(decoded->links, 3u);
  EXPECT_EQ(decoded->owner, "1000");
  EXPECT_EQ(decoded->group, "staff@x");
  EXPECT_EQ(decoded->modified, -5);
}

TEST_F(AttributesTest, SomeMayBeMissing) {
  encoder.U32(1);
  const auto decoded = DecodeAttributes(Encoded({1u << 1}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, FileType::kRegular);
  EXPECT_TRUE(DecodeAttributes(Encoded({})));
}

TEST_F(AttributesTest, ThoseOfAnEntryMayNotBeThere) {
  encoder.U32(70);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 11})));
  encoder.U32(1);
  encoder.U32(0);
  EXPECT_TRUE(DecodeAttributes(Encoded({1u << 1 | 1u << 11})));
}

TEST_F(AttributesTest, WhatNobodyAskedForIsRefused) {
  encoder.U64(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 3})));  // change
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({0, 0, 0, 1})));  // number 96
}

TEST_F(AttributesTest, OctetsThatAreMissingOrLeftOverAreRefused) {
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 1 | 1u << 4})));
  encoder.U32(1);
  encoder.U32(1);
  EXPECT_FALSE(DecodeAttributes(Encoded({1u << 1})));
}

TEST_F(AttributesTest, OfANewFileAreSizeAndMode) {
  std::vector<std::byte> octets;
  const nfs4::fattr4 encoded = EncodeNewFile(0640, octets);
  const auto decoded = DecodeAttributes(encoded);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(encoded.attrmask, (nfs4::bitmap4{1u << 4, 1u << 1}));
  EXPECT_EQ(decoded->size, 0u);
  EXPECT_EQ(decoded->mode, 0640u);
}

}  // namespace
}  // namespace penstock::client::v4
