// Reads a Message, trusting nothing in it.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/data.h"
#include "xdr/message.h"

namespace penstock::xdr {

// What can be wrong with a peer's bytes.
enum class Error : uint8_t {
  kNone,
  kTruncated,        // the stream ends too early
  kTooLong,          // a length or count is above its bound
  kBadBool,          // neither 0 nor 1
  kBadEnum,          // a value that the definition does not have
  kBadUnion,         // a discriminant without an arm
  kPayloadMismatch,  // an item or placed result is not as long as the stream says
  kStrayPayload,     // an item or placed result stands where no payload belongs
  kTrailing,         // octets are left over
};
std::string_view ErrorName(Error error);

// Every method returns false at the first error, which error() then names; what it would have filled is unspecified.
// Views handed out refer to the message's stream. The message must outlive the decoder.
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
  // The next number, which stays to be read. Nothing where the stream has ended; that is no error.
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
  // A length or count, and that it is at most `max`.
  bool Length(size_t& length, size_t max) {
    uint32_t word;
    if (!U32(word)) return false;
    if (word > max) return Fail(Error::kTooLong);
    length = word;
    return true;
  }

  // The next `count` octets, a multiple of four.
  bool Take(const std::byte*& octets, size_t count) {
    assert(count % 4 == 0);
    if (remaining() < count) return Fail(Error::kTruncated);
    octets = at_;
    at_ += count;
    return true;
  }
  // opaque[size]. The padding may be of any value: only what is sent must be zero (RFC 4506 §3).
  bool Fixed(ConstBytes& bytes, size_t size) {
    if (remaining() < RoundUp(size, 4)) return Fail(Error::kTruncated);
    bytes = {at_, size};
    at_ += RoundUp(size, 4);
    return true;
  }
  // opaque<max>.
  bool Opaque(ConstBytes& bytes, size_t max) {
    size_t size;
    return Length(size, max) && Fixed(bytes, size);
  }
  // A DDP-eligible opaque<max>: from the message's items or placed results if it is there, otherwise from the stream.
  bool Payload(Data& data, size_t max);

  // What was not read yet of the reduced stream.
  ConstBytes rest() const { return {at_, remaining()}; }
  // Octets of the whole unreduced stream.
  size_t flat_size() const { return message_.flat_size(); }
  // Octets of the reduced stream not read yet, and the position in it.
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  size_t reduced_position() const { return static_cast<size_t>(at_ - begin_); }
  // The position in the unreduced stream (RFC 8166 §3.4.4): items and placed results so far, padded, count.
  size_t position() const { return reduced_position() + beside_; }
  size_t payload_count() const { return payloads_; }

  // To be asked last: whether the whole stream and every payload beside it were read.
  bool Finish();

  Error error() const { return error_; }
  // Records the first error. Returns false always, for `return decoder.Fail(...)`, which clang-tidy's analyzer sees only
  // in a function without branches.
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
  Error error_ = Error::kNone;
};

}  // namespace penstock::xdr
