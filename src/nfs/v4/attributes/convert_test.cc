#include "nfs/v4/attributes/convert.h"

#include <gtest/gtest.h>

#include <string>

#include "nfs/v4/attributes/attribute_set.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

TEST(NameTest, AcceptsOneComponentOfAPath) {
  EXPECT_EQ(CheckName("a name"), NFS4_OK);
  EXPECT_EQ(CheckName("..."), NFS4_OK);
  EXPECT_EQ(CheckName(""), NFS4ERR_INVAL);
  EXPECT_EQ(CheckName("\xff"), NFS4ERR_INVAL);
  EXPECT_EQ(CheckName(".."), NFS4ERR_BADNAME);
  EXPECT_EQ(CheckName(std::string_view("a\0b", 3)), NFS4ERR_BADCHAR);
}

class AttributeSetTest : public testing::Test {
 protected:
  AttributeSet Decoded(std::initializer_list<uint32_t> words) {
    xdr::Encoder encoder(pool_);
    encoder.Length(words.size());
    for (const uint32_t word : words) encoder.U32(word);
    const xdr::Message message = encoder.Finish();
    xdr::Decoder decoder(message);
    AttributeSet set;
    EXPECT_TRUE(set.Decode(decoder) && decoder.Finish());
    return set;
  }
  BufferPool pool_;
};

TEST_F(AttributeSetTest, HasABitForEachNumber) {
  const AttributeSet set = Decoded({0x3, 0, 0x80000000});
  EXPECT_EQ(set, (AttributeSet{0, 1, 95}));
  EXPECT_TRUE(set.Has(95));
  EXPECT_FALSE(set.Has(94) || set.Has(96) || set.Has(UINT32_MAX));
  EXPECT_EQ(AttributeSet(set.ToBitmap()), set);
}

TEST_F(AttributeSetTest, EncodesNoMoreWordsThanNeeded) {
  EXPECT_TRUE(AttributeSet{}.ToBitmap().empty());
  EXPECT_EQ(AttributeSet{31}.ToBitmap().size(), 1u);
  EXPECT_EQ((AttributeSet{33}.encoded_size()), 12u);
}

TEST_F(AttributeSetTest, RemembersThatABitmapHasUnknownNumbers) {
  const AttributeSet beyond = Decoded({1, 0, 0, 0, 4});
  EXPECT_TRUE(beyond.IsBeyond());
  EXPECT_FALSE(AttributeSet{0}.Contains(beyond));
  EXPECT_FALSE(Decoded({1, 0, 0, 0, 0}).IsBeyond());
}

TEST_F(AttributeSetTest, HasTheOperationsOfASet) {
  const AttributeSet a{1, 40}, b{40, 80};
  EXPECT_EQ(a & b, AttributeSet{40});
  EXPECT_EQ(a | b, (AttributeSet{1, 40, 80}));
  EXPECT_EQ(a - b, AttributeSet{1});
  EXPECT_TRUE(a.Intersects(b));
  EXPECT_FALSE((a - b).Intersects(b));
}

}  // namespace
}  // namespace penstock::nfs::v4
