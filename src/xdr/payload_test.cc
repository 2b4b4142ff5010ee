// Tests how the decoder matches payloads outside the stream to their places in the stream.
#include <gtest/gtest.h>

#include "xdr/decode.h"
#include "xdr/encode.h"
#include "xdr/example.h"
#include "xdr/testing.h"

namespace penstock::xdr {
namespace {

using example::payloads;
using testing::Octets;

class PayloadTest : public ::testing::Test {
 protected:
  // The stream of a `payloads` value without its two payloads: one<> has five octets, two<> has two.
  Slice Reduced() { return Octets(pool_, "00000001 00000005 00000002 00000002 00000003"); }

  Message WithItems(std::initializer_list<std::pair<size_t, std::string_view>> items) {
    Message message = Message::Whole(Reduced());
    for (const auto& [offset, text] : items) message.items.push_back({offset, Slice::Borrowed(AsBytes(text))});
    return message;
  }

  static PlacedResult Placed(std::string_view text) { return Slice::Borrowed(AsBytes(text)); }

  static void ExpectIsRight(const Message& message) {
    const auto decoded = DecodeWhole<payloads>(message);
    ASSERT_TRUE(decoded) << ErrorName(decoded.error());
    EXPECT_EQ(decoded->before, 1);
    EXPECT_EQ(decoded->one.text(), "hello");
    EXPECT_EQ(decoded->between, 2);
    EXPECT_EQ(decoded->two.text(), "hi");
    EXPECT_EQ(decoded->after, 3);
  }

  static void ExpectError(const Message& message, Error error) {
    const auto decoded = DecodeWhole<payloads>(message);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(ErrorName(decoded.error()), ErrorName(error));
  }

  BufferPool pool_;
};

TEST_F(PayloadTest, AllPayloadsMayBeInTheStream) {
  ExpectIsRight(
      Message::Whole(Octets(pool_, "00000001 00000005 68656c6c 6f000000 00000002 00000002 68690000 00000003")));
}

TEST_F(PayloadTest, AllPayloadsMayBeItems) { ExpectIsRight(WithItems({{8, "hello"}, {16, "hi"}})); }

TEST_F(PayloadTest, PayloadsMayBeBothInTheStreamAndItems) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000005 68656c6c 6f000000 00000002 00000002 00000003"));
  message.items.push_back({24, Slice::Borrowed(AsBytes("hi"))});
  ExpectIsRight(message);
}

// RFC 5666 §3.9: "hello" has a pad, "hi" is too short for one.
TEST_F(PayloadTest, SkipsThePadsOfLongPayloads) {
  Message message = Message::Whole(
      Octets(pool_, "00000001 00000005 ffffffff ffffffff 68656c6c 6f000000 00000002 00000002 68690000 00000003"));
  message.padding = {.boundary = 32, .threshold = 5, .offset = 48};
  ExpectIsRight(message);
  message.padding.threshold = 6;
  ExpectError(message, Error::kTooLong);  // the pad is taken for the payload
}

TEST_F(PayloadTest, APadCountsAsReadAndKeepsThePayloadInItsBuffer) {
  Message message = Message::Whole(Octets(pool_, "00000004 ffffffff ffffffff ffffffff 74657874"));
  message.padding = {.boundary = 16, .threshold = 4, .offset = 0};
  Decoder decoder(message);
  EXPECT_TRUE(decoder.may_have_pads());
  Data data;
  ASSERT_TRUE(decoder.Payload(data, 4));
  EXPECT_EQ(AsText(data.bytes()), "text");
  EXPECT_EQ(data.bytes().data(), message.stream.data() + 16);
  EXPECT_EQ(data.memory().owner(), message.stream.owner());
  EXPECT_EQ(decoder.pads(), 12u);
  EXPECT_EQ(decoder.position(), 20u);
  EXPECT_TRUE(decoder.Finish());
}

TEST_F(PayloadTest, RejectsAPadBeyondTheEnd) {
  for (const size_t size : {8, 12, 16, 20}) {
    Message message = Message::Whole(Octets(pool_, "00000004 00000000 00000000 00000000 74657874").Sub(0, size));
    message.padding = {.boundary = 4096, .threshold = 4, .offset = 4};
    Decoder decoder(message);
    Data data;
    EXPECT_FALSE(decoder.Payload(data, 4));
    EXPECT_EQ(ErrorName(decoder.error()), ErrorName(Error::kTruncated));
  }
}

// Pads are only for DDP-eligible data (RFC 5666 §3.4).
TEST_F(PayloadTest, OtherOpaqueDataHasNoPad) {
  Message message = Message::Whole(Octets(pool_, "00000004 74657874"));
  message.padding = {.boundary = 64, .threshold = 4, .offset = 0};
  Decoder decoder(message);
  ConstBytes bytes;
  EXPECT_TRUE(decoder.Opaque(bytes, 4) && decoder.Finish());
}

// RFC 8166 §3.4.5.2: a Read chunk should not include the padding, but may.
TEST_F(PayloadTest, AcceptsItemsWithPadding) {
  ExpectIsRight(WithItems({{8, std::string_view("hello\0\0\0", 8)}, {16, std::string_view("hi\0\0", 4)}}));
}

TEST_F(PayloadTest, RejectsItemsWithAnotherLengthThanInTheStream) {
  ExpectError(WithItems({{8, "hell"}, {16, "hi"}}), Error::kPayloadMismatch);
  ExpectError(WithItems({{8, "hello!"}, {16, "hi"}}), Error::kPayloadMismatch);
  ExpectError(WithItems({{8, "hello!!!!"}, {16, "hi"}}), Error::kPayloadMismatch);
  ExpectError(WithItems({{8, ""}, {16, "hi"}}), Error::kPayloadMismatch);
}

TEST_F(PayloadTest, RejectsItemsWhereNoPayloadBelongs) {
  ExpectError(WithItems({{4, "before the length"}, {8, "hello"}, {16, "hi"}}), Error::kStrayPayload);
  ExpectError(WithItems({{8, "hello"}, {8, "hello"}, {16, "hi"}}), Error::kStrayPayload);
  ExpectError(WithItems({{8, "hello"}, {16, "hi"}, {20, "at the end"}}), Error::kStrayPayload);
  ExpectError(WithItems({{8, "hello"}, {16, "hi"}, {400, "after the end"}}), Error::kStrayPayload);
}

TEST_F(PayloadTest, RejectsItemsAboveTheirBound) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000000 00000002 00000009 00000003"));
  message.items.push_back({16, Slice::Borrowed(AsBytes("ninebytes"))});
  ExpectError(message, Error::kTooLong);
}

TEST_F(PayloadTest, AcceptsEmptyItems) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000000 00000002 00000002 00000003"));
  message.items.push_back({8, Data()});
  message.items.push_back({16, Slice::Borrowed(AsBytes("hi"))});
  EXPECT_TRUE(DecodeWhole<payloads>(message));
}

// RFC 8166 §4.3.2: the n-th Write chunk belongs to the n-th DDP-eligible result.
TEST_F(PayloadTest, MatchesPlacedResultsInOrder) {
  Message message = Message::Whole(Reduced());
  message.placed = {Placed("hello"), Placed("hi")};
  ExpectIsRight(message);
}

TEST_F(PayloadTest, ReadsAResultWithoutAChunkFromTheStream) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000005 68656c6c 6f000000 00000002 00000002 00000003"));
  message.placed = {std::nullopt, Placed("hi")};
  ExpectIsRight(message);
}

// RFC 8166 §6.1: a responder that ignores the chunk of a result, and sends the result in the stream, violates the
// protocol.
TEST_F(PayloadTest, RejectsAResultInTheStreamIfItHasAChunk) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000005 68656c6c 6f000000 00000002 00000002 00000003"));
  message.placed = {Placed(""), Placed("hi")};
  ExpectError(message, Error::kPayloadMismatch);
}

TEST_F(PayloadTest, AcceptsAnEmptyChunkForAnEmptyResult) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000000 00000002 00000002 00000003"));
  message.placed = {Placed(""), Placed("hi")};
  EXPECT_TRUE(DecodeWhole<payloads>(message));
}

TEST_F(PayloadTest, ReadsResultsAfterTheLastChunkFromTheStream) {
  Message message = Message::Whole(Octets(pool_, "00000001 00000005 00000002 00000002 68690000 00000003"));
  message.placed = {Placed("hello")};
  ExpectIsRight(message);
}

TEST_F(PayloadTest, RejectsOctetsInSurplusChunks) {
  Message message = Message::Whole(Reduced());
  message.placed = {Placed("hello"), Placed("hi"), Placed(""), std::nullopt};
  ExpectIsRight(message);
  message.placed = {Placed("hello"), Placed("hi"), Placed("stray")};
  ExpectError(message, Error::kStrayPayload);
}

TEST_F(PayloadTest, RejectsPlacedResultsWithAnotherLengthThanInTheStream) {
  Message message = Message::Whole(Reduced());
  message.placed = {Placed("hell"), Placed("hi")};
  ExpectError(message, Error::kPayloadMismatch);
}

// RFC 8166 §3.4.4: positions refer to the unreduced stream.
TEST_F(PayloadTest, PositionsIncludePayloadsOutsideTheStream) {
  const Message message = WithItems({{8, "hello"}, {16, "hi"}});
  Decoder decoder(message);
  payloads value;
  ASSERT_TRUE(Decode(decoder, value));
  EXPECT_EQ(decoder.position(), 32u);
  EXPECT_EQ(decoder.reduced_position(), 20u);
  EXPECT_EQ(decoder.payload_count(), 2u);
}

TEST_F(PayloadTest, KeepsTheBufferOfItsOctets) {
  Payload<> kept;
  {
    const Message message = Message::Whole(Octets(pool_, "00000005 68656c6c 6f000000"));
    auto decoded = DecodeWhole<Payload<>>(message);
    ASSERT_TRUE(decoded);
    kept = *decoded;
  }
  const BufferRef other = pool_.Allocate(16);
  std::fill(other->bytes().begin(), other->bytes().end(), std::byte{'x'});
  EXPECT_EQ(kept.text(), "hello");
}

TEST_F(PayloadTest, EncodingAndDecodingDoNotCopyPayloads) {
  const std::string text(100'000, 'x');
  example::read_ok read{.eof = true, .data = Payload<>::Borrowed(text)};
  const Message message = testing::Encoded(pool_, read);
  EXPECT_EQ(message.stream.size(), 8u);
  const auto decoded = DecodeWhole<example::read_ok>(message);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(static_cast<const void*>(decoded->data.bytes().data()), text.data());
}

}  // namespace
}  // namespace penstock::xdr
