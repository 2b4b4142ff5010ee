// Tests of the sizes that follow from the types.
#include <gtest/gtest.h>

#include "xdr/encode.h"
#include "xdr/example.h"

namespace penstock::xdr {
namespace {

TEST(Extent, EqualsTheSizeOfAFixedType) {
  EXPECT_EQ(MaxSize<uint32_t>(), 4u);
  EXPECT_EQ(MaxSize<uint64_t>(), 8u);
  EXPECT_EQ(MaxSize<Void>(), 0u);
  EXPECT_EQ(MaxSize<example::numbers>(), 44u);
  EXPECT_EQ(MaxSize<example::fixed>(), 8u + 2 * 44);
  EXPECT_TRUE(kExtent<example::fixed>.fixed);
  EXPECT_EQ(kExtent<example::fixed>.min, kExtent<example::fixed>.max);
}

TEST(Extent, IncludesTheLengthAndThePaddingOfBoundedTypes) {
  EXPECT_EQ(MaxSize<Opaque<5>>(), 4u + 8);
  EXPECT_EQ(MaxSize<StringView<255>>(), 4u + 256);
  EXPECT_EQ((MaxSize<Vector<uint64_t, 3>>()), 4u + 24);
  EXPECT_EQ(MaxSize<std::optional<uint64_t>>(), 12u);
  EXPECT_EQ(MaxSize<example::file>(), 260u + (4 + 260) + 36 + 4 + 65536);
  EXPECT_FALSE(kExtent<example::file>.open);
  EXPECT_EQ(kExtent<example::file>.min, 16u);
}

TEST(Extent, TakesTheLargestArmOfAUnion) {
  EXPECT_EQ(MaxSize<example::by_bool>(), 12u);
  EXPECT_EQ(kExtent<example::by_bool>.min, 8u);
  EXPECT_FALSE(kExtent<example::by_unsigned>.fixed);
}

TEST(Extent, CountsPayloadsButNotTheirOctets) {
  EXPECT_EQ(MaxSize<example::payloads>(), 20u);
  EXPECT_EQ(kExtent<example::payloads>.payloads, 2u);
  EXPECT_FALSE(kExtent<example::payloads>.open);
  EXPECT_EQ(kExtent<example::by_number>.payloads, 1u);
  EXPECT_EQ(kExtent<example::compound>.payloads, UINT64_MAX);
}

TEST(Extent, MarksUnboundedTypesAsOpen) {
  EXPECT_EQ(MaxSize<List<example::node>>(), 4u);
  EXPECT_TRUE(kExtent<List<example::node>>.open);
  EXPECT_EQ(MaxSize<OpaqueView<kUnbounded>>(), 4u);
  EXPECT_TRUE(kExtent<OpaqueView<kUnbounded>>.open);
  EXPECT_TRUE(kExtent<example::everything>.open);
}

TEST(Extent, SaturatesInsteadOfOverflowing) {
  using Large = Vector<Vector<uint64_t, 0xfffffffe>, 0xfffffffe>;
  EXPECT_EQ(MaxSize<Large>(), SIZE_MAX);
}

}  // namespace
}  // namespace penstock::xdr
