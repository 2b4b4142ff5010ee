// Tests that values are encoded as the exact octets of the specification, and that decoding restores them.
#include <gtest/gtest.h>

#include "xdr/decode.h"
#include "xdr/encode.h"
#include "xdr/example.h"
#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using example::file;
using testing::Encoded;
using testing::EncodedHex;
using testing::Octets;

class Codec : public ::testing::Test {
 protected:
  // Checks that `value` is encoded as `hex`, that EncodedSize() tells the size, and that decoding restores the value.
  template <class T>
  void ExpectEncoding(const T& value, const std::string& hex) {
    EXPECT_EQ(EncodedHex(pool_, value), hex);
    ExpectRoundTrip(value);
  }

  template <class T>
  void ExpectRoundTrip(const T& value) {
    const Message message = Encoded(pool_, value);
    EXPECT_EQ(message.flat_size(), EncodedSize(value));
    const auto decoded = DecodeWhole<T>(message);
    ASSERT_TRUE(decoded) << ErrorName(decoded.error());
    EXPECT_EQ(*decoded, value);
    const auto flat = DecodeWhole<T>(Message::Whole(Unreduce(pool_, message)));
    ASSERT_TRUE(flat) << ErrorName(flat.error());
  }

  template <class T>
  Error DecodingError(std::string_view hex) {
    const auto decoded = DecodeWhole<T>(Message::Whole(Octets(pool_, hex)));
    return decoded ? Error::kNone : decoded.error();
  }

  BufferPool pool_;
};

// RFC 4506 §7
TEST_F(Codec, EncodesTheExampleFileOfTheSpecification) {
  file silly;
  silly.filename = "sillyprog";
  silly.type.Select(example::EXEC);
  silly.type.interpretor() = "lisp";
  silly.owner = "john";
  silly.data = AsBytes("(quit)");
  ExpectEncoding(silly,
                 "00000009 73696c6c 7970726f 67000000 "  // filename
                 "00000002 00000004 6c697370 "           // type: EXEC, interpretor
                 "00000004 6a6f686e "                    // owner
                 "00000006 28717569 74290000");          // data
}

TEST_F(Codec, EncodesNumbers) {
  example::numbers numbers;
  numbers.i = -2;
  numbers.u = 0xfffffffe;
  numbers.h = -3;
  numbers.v = 0x0123456789abcdef;
  numbers.f = 1.5F;
  numbers.d = -2.0;
  numbers.b = true;
  numbers.kind = example::EXEC;
  ExpectEncoding(numbers,
                 "fffffffe fffffffe ffffffff fffffffd 01234567 89abcdef 3fc00000 c0000000 00000000 00000001 00000002");
}

TEST_F(Codec, PadsFixedOpaqueWithZeros) {
  example::fixed fixed;
  fixed.verifier.fill(std::byte{0xab});
  EXPECT_EQ(EncodedHex(pool_, fixed).substr(0, 17), "abababab ab000000");
  ExpectRoundTrip(fixed);
}

TEST_F(Codec, EncodesAnOptionalAsABoolAndAValue) {
  ExpectEncoding(std::optional<uint32_t>(), "00000000");
  ExpectEncoding(std::optional<uint32_t>(7), "00000001 00000007");
}

TEST_F(Codec, EncodesAnArrayAsItsCountAndItsElements) {
  ExpectEncoding(Vector<uint32_t, 3>{5, 6}, "00000002 00000005 00000006");
  ExpectEncoding(std::array<uint32_t, 2>{5, 6}, "00000005 00000006");
}

TEST_F(Codec, EncodesAListAsAChainOfOptionals) {
  ExpectEncoding(List<example::node>(), "00000000");
  ExpectEncoding(List<example::node>{{.value = 1, .label = "a"}, {.value = 2, .label = ""}},
                 "00000001 00000001 00000001 61000000 "
                 "00000001 00000002 00000000 "
                 "00000000");
}

TEST_F(Codec, DecodesALongListWithoutRecursion) { ExpectRoundTrip(List<example::node>(200'000)); }

TEST_F(Codec, EncodesVoidAsNoOctets) { ExpectEncoding(Void(), ""); }

TEST_F(Codec, EncodesUnionsWithNumericDiscriminants) {
  ExpectEncoding(example::by_number(-1, int64_t{5}), "ffffffff 00000000 00000005");
  ExpectEncoding(example::by_number(1), "00000001");
  ExpectEncoding(example::by_unsigned(0xffffffff, int32_t{5}), "ffffffff 00000005");
  ExpectEncoding(example::by_unsigned(3, int32_t{5}), "00000003 00000005");
  ExpectEncoding(example::by_bool(true, int32_t{5}), "00000001 00000005");
  ExpectEncoding(example::by_bool(false, int64_t{5}), "00000000 00000000 00000005");
}

TEST_F(Codec, RejectsADiscriminantWithoutAnArm) {
  EXPECT_EQ(DecodingError<example::by_number>("00000003"), Error::kBadUnion);
}

TEST_F(Codec, DistinguishesArmsOfTheSameType) {
  const auto other = DecodeWhole<example::by_unsigned>(Message::Whole(Octets(pool_, "00000003 00000005")));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->is_all());
  EXPECT_EQ(other->other(), 5);
}

TEST_F(Codec, RejectsBoolsOtherThanZeroAndOne) {
  EXPECT_EQ(DecodingError<bool>("00000001"), Error::kNone);
  EXPECT_EQ(DecodingError<bool>("00000002"), Error::kBadBool);
  EXPECT_EQ(DecodingError<std::optional<uint32_t>>("00000100"), Error::kBadBool);
  EXPECT_EQ(DecodingError<List<example::node>>("ffffffff"), Error::kBadBool);
}

TEST_F(Codec, RejectsEnumValuesOutsideTheDefinition) {
  EXPECT_EQ(DecodingError<example::filekind>("00000002"), Error::kNone);
  EXPECT_EQ(DecodingError<example::filekind>("00000003"), Error::kBadEnum);
  EXPECT_EQ(DecodingError<example::filetype>("00000003"), Error::kBadEnum);
}

TEST_F(Codec, AcceptsUnknownValuesOfOpenEnums) {
  ExpectEncoding(static_cast<example::colour>(77), "0000004d");
  ExpectEncoding(example::by_colour(static_cast<example::colour>(77)), "0000004d");
}

TEST_F(Codec, DecodingReplacesThePreviousValue) {
  const Message none = Message::Whole(Octets(pool_, "00000000"));
  List<example::node> list(3);
  Vector<uint32_t, 9> vector(3);
  std::optional<uint32_t> optional(3);
  EXPECT_TRUE(Decode(*std::make_unique<Decoder>(none), list));
  EXPECT_TRUE(Decode(*std::make_unique<Decoder>(none), vector));
  EXPECT_TRUE(Decode(*std::make_unique<Decoder>(none), optional));
  EXPECT_TRUE(list.empty() && vector.empty() && !optional);
}

TEST_F(Codec, RoundTripsAValueWithEveryKindOfMember) {
  example::everything all;
  all.tint = example::GREEN;
  all.first.pair[1].h = -9;
  all.handle.Assign(AsBytes("handle"));
  all.body = AsBytes("bodies");
  all.blob = AsBytes("blob!");
  all.name = "name";
  all.few = {1, 2, 3};
  all.words = {"a", "bc", "def", "ghij", ""};
  all.files.emplace_back().filename = "one";
  all.files.emplace_back().type = example::filetype(example::DATA, StringView<255>("me"));
  all.two_words = {"left", "it"};
  all.maybe.emplace().kind = example::DATA;
  all.chain = {{.value = 1, .label = "x"}, {.value = 2, .label = "yy"}};
  ExpectRoundTrip(all);
}

TEST_F(Codec, EncodesArraysOfUnions) {
  example::compound compound;
  compound.operations = {example::by_number(0), example::by_number(-1, int64_t{7}),
                         example::by_number(2, example::read_ok{.eof = true, .data = Payload<>::Borrowed("x")})};
  ExpectEncoding(compound, "00000003 00000000 ffffffff 00000000 00000007 00000002 00000001 00000001 78000000");
}

}  // namespace
}  // namespace penstock::xdr
