#include "xdr/types.h"

#include <gtest/gtest.h>

#include <unordered_set>
#include <utility>

#include "base/buffer.h"
#include "xdr/example.h"

namespace penstock::xdr {
namespace {

TEST(Opaque, ComparesAndHashesItsOctets) {
  const Opaque<8> a(AsBytes("abc"));
  Opaque<8> b(AsBytes("abcdefgh"));
  EXPECT_LT(a, b);
  b.Assign(AsBytes("abc"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::unordered_set<Opaque<8>>({a, b, Opaque<8>()}).size(), 2u);
}

TEST(Opaque, RefusesMoreOctetsThanItsBound) {
  EXPECT_TRUE(Opaque<3>::From(AsBytes("abc")));
  EXPECT_FALSE(Opaque<3>::From(AsBytes("abcd")));
}

TEST(Opaque, OrdersByUnsignedOctets) { EXPECT_LT(Opaque<1>(AsBytes("\x7f")), Opaque<1>(AsBytes("\x80"))); }

TEST(Union, StartsWithItsFirstCase) {
  const example::by_number number;
  EXPECT_EQ(number.which(), -1);
  EXPECT_TRUE(number.is_minus());
  EXPECT_EQ(number.minus(), 0);
}

TEST(Union, ChangesItsArmAndDiscriminantTogether) {
  example::by_number number;
  EXPECT_TRUE(number.TrySelect(2));
  EXPECT_TRUE(number.is_read());
  number.read().eof = true;
  EXPECT_FALSE(number.TrySelect(99));
  EXPECT_TRUE(number.read().eof);
}

TEST(Union, CopiesAndMovesItsArm) {
  BufferPool pool;
  {
    example::by_number read(2);
    read.read().data = Payload<>(Slice(pool.Allocate(5), AsBytes("owned")));
    example::by_number copy = read;
    EXPECT_EQ(copy, read);
    example::by_number other(0);
    other = copy;
    EXPECT_EQ(other, read);
    other = std::as_const(other);
    EXPECT_EQ(other, read);
    const example::by_number moved = std::move(copy);
    EXPECT_EQ(moved, read);
    other = example::by_number(-1, int64_t{5});
    EXPECT_EQ(other.minus(), 5);
    EXPECT_EQ(moved.read().data.text(), "owned");
    EXPECT_EQ(pool.outstanding(), 1u);
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST(Union, ComparesItsDiscriminantToo) {
  EXPECT_NE(example::by_number(0), example::by_number(1));
  EXPECT_EQ(example::by_number(1), example::by_number(1, Void()));
}

#ifndef NDEBUG
TEST(UnionDeathTest, AbortsOnAccessToAnArmThatIsNotSelected) {
  EXPECT_DEATH(example::by_number(0, int64_t{1}), "assigned");
  EXPECT_DEATH(example::by_number(5), "selected");
  EXPECT_DEATH(example::by_number(0).minus(), "index_");
}
#endif

TEST(Payload, ComparesItsOctets) {
  EXPECT_EQ(Payload<>::Borrowed("abc"), Payload<>::Borrowed(std::string("abc")));
  EXPECT_NE(Payload<>::Borrowed("abc"), Payload<>::Borrowed("abd"));
  const Payload<> file(Data(std::make_shared<const FileDescriptor>(-1), 0, 3));
  EXPECT_EQ(file, file);
  EXPECT_NE(file, Payload<>::Borrowed("abc"));
}

}  // namespace
}  // namespace penstock::xdr
