// Reads a Message from a peer, and checks every length, count and value in it.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/data.h"
#include "xdr/message.h"

namespace penstock::xdr {

// The reasons to reject the bytes of a peer.
enum class Error : uint8_t {
  kNone,
  kTruncated,        // the stream ends too early
  kTooLong,          // a length or count exceeds its bound
  kBadBool,          // a bool is neither 0 nor 1
  kBadEnum,          // an enum has a value outside its definition
  kBadUnion,         // a union has a discriminant without an arm
  kPayloadMismatch,  // the length of an item or placed result differs from the length in the stream
  kStrayPayload,     // an item or placed result is at a place where no payload belongs
  kTrailing,         // octets follow the value
};
std::string_view ErrorName(Error error);

// Reads the values of one message, one after the other. Each method returns false at the first error, and error() then
// tells the reason; the value of its output argument is then unspecified. Returned views refer to the stream of the
// message. The message must outlive the decoder.
class Decoder {
 public:
  explicit Decoder(const Message& message)
      : message_(message), begin_(message.stream.data()), at_(begin_), end_(begin_ + message.stream.size()) {
    assert(message.items.empty() || message.placed.empty());
  }
  Decoder& operator=(const Decoder&) = delete;

  // A decoder of the same message at the same position, to look ahead with.
  Decoder Fork() const { return *this; }

  bool U32(uint32_t& value) {
    if (remaining() < 4) return Fail(Error::kTruncated);
    value = LoadBig<uint32_t>(at_);
    at_ += 4;
    return true;
  }
  // Returns the next number without reading it, or none at the end of the stream, which is no error.
  std::optional<uint32_t> PeekU32() const {
    if (remaining() < 4) return std::nullopt;
    return LoadBig<uint32_t>(at_);
  }
  bool U64(uint64_t& value) {
    if (remaining() < 8) return Fail(Error::kTruncated);
    value = LoadBig<uint64_t>(at_);
    at_ += 8;
    return true;
  }
  bool Bool(bool& value) {
    uint32_t word;
    if (!U32(word)) return false;
    if (word > 1) return Fail(Error::kBadBool);
    value = word != 0;
    return true;
  }
  // Reads a length or count. Fails if it exceeds `max`.
  bool Length(size_t& length, size_t max) {
    uint32_t word;
    if (!U32(word)) return false;
    if (word > max) return Fail(Error::kTooLong);
    length = word;
    return true;
  }

  // Reads `count` octets. `count` must be a multiple of four.
  bool Take(const std::byte*& octets, size_t count) {
    assert(count % 4 == 0);
    if (remaining() < count) return Fail(Error::kTruncated);
    octets = at_;
    at_ += count;
    return true;
  }
  // Reads an opaque[size]. Accepts any padding: only a sender must use zeros (RFC 4506 §3).
  bool Fixed(ConstBytes& bytes, size_t size) {
    if (remaining() < RoundUp(size, 4)) return Fail(Error::kTruncated);
    bytes = {at_, size};
    at_ += RoundUp(size, 4);
    return true;
  }
  // Reads an opaque<max>.
  bool Opaque(ConstBytes& bytes, size_t max) {
    size_t size;
    return Length(size, max) && Fixed(bytes, size);
  }
  // Reads a DDP-eligible opaque<max> from the items or the placed results of the message, or else from the stream.
  bool Payload(Data& data, size_t max);

  // The unread rest of the reduced stream.
  ConstBytes rest() const { return {at_, remaining()}; }
  // The size of the whole unreduced stream, with its pads.
  size_t flat_size() const { return message_.flat_size(); }
  // Whether the message may have pads, and the octets of the pads that were skipped so far. See Padding.
  bool may_have_pads() const { return message_.padding.boundary != 0; }
  size_t pads() const { return pads_; }
  // The size of the unread rest of the reduced stream, and the position in the reduced stream.
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  size_t reduced_position() const { return static_cast<size_t>(at_ - begin_); }
  // The position in the unreduced stream (RFC 8166 §3.4.4). It includes previous items and placed results with their
  // padding, and pads.
  size_t position() const { return reduced_position() + beside_; }
  size_t payload_count() const { return payloads_; }

  // Call this last. Fails unless the whole stream, and every item and placed result, has been read.
  bool Finish();

  Error error() const { return error_; }
  // Records the first error. Always returns false, for `return decoder.Fail(...)`. The branch is in another function,
  // because clang-tidy's analyzer would not see the constant result otherwise.
  bool Fail(Error error) {
    Record(error);
    return false;
  }

 private:
  Decoder(const Decoder&) = default;

  void Record(Error error) {
    if (error_ == Error::kNone) error_ = error;
  }
  bool Beside(Data& data, size_t size, const Data& source);

  const Message& message_;
  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
  size_t next_item_ = 0;
  size_t payloads_ = 0;
  size_t beside_ = 0;
  size_t pads_ = 0;
  Error error_ = Error::kNone;
};

}  // namespace penstock::xdr
