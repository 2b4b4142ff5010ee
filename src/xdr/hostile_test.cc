// Tests of hostile input: truncated messages, and false counts and lengths.
#include <gtest/gtest.h>

#include "xdr/decode.h"
#include "xdr/encode.h"
#include "xdr/example.h"
#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using testing::Octets;

class Hostile : public ::testing::Test {
 protected:
  // Decodes `hex` as a T. Checks that this fails with `error`, and that no array has allocated more than the octets can
  // hold.
  template <class T>
  void ExpectCheapError(std::string_view hex, Error error) {
    const Message message = Message::Whole(Octets(pool_, hex));
    Decoder decoder(message);
    T value;
    EXPECT_FALSE(Decode(decoder, value)) << hex;
    if constexpr (VectorType<T> || ListType<T>) {
      EXPECT_LE(value.capacity(), message.stream.size() / 4) << hex;
    }
    EXPECT_EQ(ErrorName(decoder.error()), ErrorName(error)) << hex;
  }

  BufferPool pool_;
};

TEST_F(Hostile, RejectsEveryTruncation) {
  example::everything all;
  all.handle.Assign(AsBytes("handle"));
  all.body = AsBytes("body");
  all.blob = AsBytes("blob!");
  all.name = "name";
  all.few = {1, 2, 3};
  all.words = {"a", "bc"};
  all.files.emplace_back().type = example::filetype(example::DATA, StringView<255>("me"));
  all.maybe.emplace();
  all.chain = {{.value = 1, .label = "x"}};
  const Slice whole = testing::Encoded(pool_, all).stream;
  for (size_t size = 0; size < whole.size(); ++size) {
    // Copy it to a block of exactly this size, so that the sanitizer detects a read past the end.
    const std::vector<std::byte> cut(whole.data(), whole.data() + size);
    const auto decoded = DecodeWhole<example::everything>(Message::Whole(Slice::Borrowed(cut)));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error(), Error::kTruncated) << size;
  }
}

TEST_F(Hostile, RejectsLengthsNearTheLimitOf32Bits) {
  for (const char* length : {"ffffffff", "fffffffe", "fffffffd", "fffffffc", "80000000", "7fffffff"}) {
    ExpectCheapError<OpaqueView<kUnbounded>>(length, Error::kTruncated);
    ExpectCheapError<StringView<kUnbounded>>(length, Error::kTruncated);
    ExpectCheapError<Payload<kUnbounded>>(length, Error::kTruncated);
    ExpectCheapError<Vector<uint32_t, kUnbounded>>(length, Error::kTruncated);
    ExpectCheapError<Vector<example::file, kUnbounded>>(length, Error::kTruncated);
    ExpectCheapError<Opaque<64>>(length, Error::kTooLong);
    ExpectCheapError<StringView<255>>(length, Error::kTooLong);
    ExpectCheapError<Payload<1024>>(length, Error::kTooLong);
    ExpectCheapError<Vector<uint32_t, 16>>(length, Error::kTooLong);
  }
}

TEST_F(Hostile, RejectsLengthsOneAboveTheBound) {
  ExpectCheapError<Opaque<4>>("00000005 61616161 61000000", Error::kTooLong);
  ExpectCheapError<StringView<4>>("00000005 61616161 61000000", Error::kTooLong);
  ExpectCheapError<Vector<uint32_t, 1>>("00000002 00000000 00000000", Error::kTooLong);
}

TEST_F(Hostile, RejectsACountThatExceedsTheMessage) {
  ExpectCheapError<Vector<uint32_t, kUnbounded>>("00000002 00000000", Error::kTruncated);
  // A `file` has at least sixteen octets, so that two of them do not fit.
  ExpectCheapError<Vector<example::file, kUnbounded>>(
      "00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000", Error::kTruncated);
}

TEST_F(Hostile, RejectsAListWithoutAnEnd) {
  ExpectCheapError<List<example::node>>("00000001 00000000 00000000 00000001", Error::kTruncated);
}

}  // namespace
}  // namespace penstock::xdr
