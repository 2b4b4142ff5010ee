#include "xdr/decoder.h"

#include <gtest/gtest.h>

#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using testing::Octets;

class DecoderTest : public ::testing::Test {
 protected:
  Message Whole(std::string_view hex) { return Message::Whole(Octets(pool_, hex)); }
  BufferPool pool_;
};

TEST_F(DecoderTest, ReadsBigEndianWords) {
  const Message message = Whole("00000001 01020304 05060708 00000001");
  Decoder decoder(message);
  uint32_t word = 0;
  uint64_t hyper = 0;
  bool truth = false;
  EXPECT_TRUE(decoder.U32(word) && decoder.U64(hyper) && decoder.Bool(truth));
  EXPECT_EQ(word, 1u);
  EXPECT_EQ(hyper, 0x0102030405060708u);
  EXPECT_TRUE(truth);
  EXPECT_TRUE(decoder.Finish());
}

TEST_F(DecoderTest, AcceptsAnyPadding) {
  const Message message = Whole("00000001 61ffffff");
  Decoder decoder(message);
  ConstBytes bytes;
  EXPECT_TRUE(decoder.Opaque(bytes, 1));
  EXPECT_EQ(AsText(bytes), "a");
  EXPECT_TRUE(decoder.Finish());
}

TEST_F(DecoderTest, RejectsMissingPadding) {
  const Message message = Whole("00000001 61ff");
  Decoder decoder(message);
  ConstBytes bytes;
  EXPECT_FALSE(decoder.Opaque(bytes, 1));
  EXPECT_EQ(decoder.error(), Error::kTruncated);
}

TEST_F(DecoderTest, AcceptsALengthEqualToTheBound) {
  const Message message = Whole("00000004 61626364");
  ConstBytes bytes;
  EXPECT_TRUE(Decoder(message).Opaque(bytes, 4));
  Decoder strict(message);
  EXPECT_FALSE(strict.Opaque(bytes, 3));
  EXPECT_EQ(strict.error(), Error::kTooLong);
}

TEST_F(DecoderTest, KeepsTheFirstError) {
  const Message message = Whole("00000002");
  Decoder decoder(message);
  bool truth;
  uint32_t word;
  EXPECT_FALSE(decoder.Bool(truth));
  EXPECT_FALSE(decoder.U32(word));
  EXPECT_FALSE(decoder.Finish());
  EXPECT_EQ(decoder.error(), Error::kBadBool);
}

TEST_F(DecoderTest, RejectsTrailingOctets) {
  const Message message = Whole("00000002 00000000");
  Decoder decoder(message);
  uint32_t word;
  EXPECT_TRUE(decoder.U32(word));
  EXPECT_EQ(decoder.remaining(), 4u);
  EXPECT_FALSE(decoder.Finish());
  EXPECT_EQ(decoder.error(), Error::kTrailing);
}

TEST_F(DecoderTest, AcceptsAnEmptyMessage) {
  const Message message;
  Decoder decoder(message);
  const std::byte* octets;
  EXPECT_TRUE(decoder.Take(octets, 0));
  EXPECT_TRUE(decoder.Finish());
  uint32_t word;
  EXPECT_FALSE(decoder.U32(word));
}

TEST_F(DecoderTest, PeeksAtTheNextNumber) {
  const Message message = Whole("0000002a 00000007");
  Decoder decoder(message);
  uint32_t value;
  EXPECT_EQ(decoder.PeekU32(), 42u);
  EXPECT_TRUE(decoder.U32(value) && decoder.U32(value));
  EXPECT_EQ(value, 7u);
  EXPECT_EQ(decoder.PeekU32(), std::nullopt);
  EXPECT_TRUE(decoder.Finish());
}

TEST_F(DecoderTest, EveryErrorHasAName) {
  for (int i = 0; i <= static_cast<int>(Error::kTrailing); ++i) {
    EXPECT_NE(ErrorName(static_cast<Error>(i)), "unknown") << i;
  }
}

}  // namespace
}  // namespace penstock::xdr
