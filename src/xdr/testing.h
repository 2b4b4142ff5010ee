// Helpers for tests: they convert messages from and to hexadecimal text.
#pragma once

#include <cassert>
#include <cctype>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/bytes.h"
#include "xdr/encode.h"
#include "xdr/flatten.h"
#include "xdr/message.h"

namespace penstock::xdr::testing {

// Converts text such as "00 2a" to octets in a buffer of the pool. Ignores white space.
inline Slice Octets(BufferPool& pool, std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (!std::isspace(static_cast<unsigned char>(c))) digits += c;
  }
  assert(digits.size() % 2 == 0);
  BufferRef buffer = pool.Allocate(digits.size() / 2);
  for (size_t i = 0; i < digits.size() / 2; ++i) {
    buffer->data()[i] = static_cast<std::byte>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  const ConstBytes bytes = buffer->bytes().first(digits.size() / 2);
  return Slice(std::move(buffer), bytes);
}

// Converts octets to text, in words of four octets: "00000001 6a6f686e".
inline std::string Hex(ConstBytes bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && i % 4 == 0) hex += ' ';
    hex += "0123456789abcdef"[std::to_integer<int>(bytes[i] >> 4)];
    hex += "0123456789abcdef"[std::to_integer<int>(bytes[i] & std::byte{15})];
  }
  return hex;
}

// Encodes `value` as a message.
template <class T>
Message Encoded(BufferPool& pool, const T& value) {
  Encoder encoder(pool);
  Encode(encoder, value);
  return encoder.Finish();
}

// Returns the unreduced encoding of `value` in hexadecimal.
template <class T>
std::string EncodedHex(BufferPool& pool, const T& value) {
  return Hex(Unreduce(pool, Encoded(pool, value)).bytes());
}

}  // namespace penstock::xdr::testing
