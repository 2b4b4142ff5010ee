#include "nfs_protocol/number_set.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/buffer.h"

namespace penstock::nfs_protocol {
namespace {

using Set = NumberSet<uint32_t>;

std::vector<uint32_t> NumbersOf(const Set& set) {
  std::vector<uint32_t> numbers;
  EXPECT_TRUE(set.ForEach([&](uint32_t number) {
    numbers.push_back(number);
    return true;
  }));
  return numbers;
}

TEST(NumberSet, ListsItsNumbersInAscendingOrder) {
  Set set{64, 3, 31, 32};
  EXPECT_EQ(NumbersOf(set), (std::vector<uint32_t>{3, 31, 32, 64}));
  set.Remove(31);
  EXPECT_FALSE(set.Has(31));
  EXPECT_TRUE(set.Has(64));
  EXPECT_FALSE(set.Has(Set::kEnd));
  EXPECT_FALSE(set.empty());
}

TEST(NumberSet, StopsWhereTheVisitorReturnsFalse) {
  int visited = 0;
  EXPECT_FALSE((Set{1, 2, 3}).ForEach([&](uint32_t number) { return ++visited, number != 2; }));
  EXPECT_EQ(visited, 2);
}

TEST(NumberSet, CombinesSets) {
  const Set low{1, 2, 33};
  const Set high{2, 33, 70};
  EXPECT_EQ(low & high, (Set{2, 33}));
  EXPECT_EQ(low | high, (Set{1, 2, 33, 70}));
  EXPECT_EQ(low - high, Set{1});
  EXPECT_TRUE(low.Intersects(high));
  EXPECT_FALSE(low.Contains(high));
  EXPECT_TRUE(low.Contains({1, 33}));
}

// RFC 8881 §3.3.7: number n is bit n mod 32 of word n / 32, counted from the least significant bit.
TEST(NumberSet, EncodesAsABitmapWithoutTrailingZeroWords) {
  EXPECT_EQ(Set().ToBitmap(), nfs4::bitmap4{});
  EXPECT_EQ((Set{0, 31}).ToBitmap(), nfs4::bitmap4{0x80000001});
  EXPECT_EQ((Set{33}).ToBitmap(), (nfs4::bitmap4{0, 2}));
  BufferPool pool;
  xdr::Encoder encoder(pool);
  const Set set{1, 65};
  set.Encode(encoder);
  EXPECT_EQ(encoder.reduced_size(), set.encoded_size());
  const xdr::Message message = encoder.Finish();
  xdr::Decoder decoder(message);
  Set decoded;
  ASSERT_TRUE(decoded.Decode(decoder) && decoder.Finish());
  EXPECT_EQ(decoded, set);
}

TEST(NumberSet, RemembersThatABitmapHadALargerNumber) {
  EXPECT_FALSE(Set(nfs4::bitmap4{1, 0, 0, 0}).IsBeyond()) << "a word of zeros adds no number";
  const Set set(nfs4::bitmap4{1, 0, 0, 1});
  EXPECT_TRUE(set.IsBeyond());
  EXPECT_EQ(NumbersOf(set), std::vector<uint32_t>{0});
  EXPECT_FALSE((Set{0}).Contains(set));
}

TEST(NumberSet, RejectsABitmapThatEndsTooEarly) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  encoder.U32(2);
  encoder.U32(1);
  const xdr::Message message = encoder.Finish();
  xdr::Decoder decoder(message);
  Set decoded;
  EXPECT_FALSE(decoded.Decode(decoder));
}

}  // namespace
}  // namespace penstock::nfs_protocol
