// A set of small numbers, such as attributes or operations, in the form of bitmap4 (RFC 8881 §3.3.7). Unlike bitmap4 it
// allocates no memory.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "protocol/nfs4_types.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs_protocol {

// `Number` is uint32_t or an enum with that underlying type.
template <class Number>
class NumberSet {
 public:
  // No attribute or operation that Penstock knows has a number of kEnd or more. IsBeyond() says whether a decoded
  // bitmap had such a number.
  static constexpr size_t kWords = 3;
  static constexpr uint32_t kEnd = kWords * 32;

  constexpr NumberSet() = default;
  constexpr NumberSet(std::initializer_list<Number> numbers) {
    for (const Number number : numbers) Add(number);
  }
  explicit NumberSet(const nfs4::bitmap4& bitmap) {
    for (size_t i = 0; i < bitmap.size(); ++i) AddWord(i, bitmap[i]);
  }

  constexpr bool Has(Number number) const {
    const auto value = static_cast<uint32_t>(number);
    return value < kEnd && (words_[value / 32] & BitOf(value)) != 0;
  }
  constexpr void Add(Number number) {
    const auto value = static_cast<uint32_t>(number);
    assert(value < kEnd);
    words_[value / 32] |= BitOf(value);
  }
  constexpr void Remove(Number number) {
    const auto value = static_cast<uint32_t>(number);
    words_[value / 32] &= ~BitOf(value);
  }

  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2]) == 0; }
  constexpr size_t size() const {
    return static_cast<size_t>(std::popcount(words_[0]) + std::popcount(words_[1]) + std::popcount(words_[2]));
  }
  // Whether the bitmap had a number of kEnd or more.
  constexpr bool IsBeyond() const { return beyond_; }
  constexpr bool Intersects(const NumberSet& other) const { return !(*this & other).empty(); }
  constexpr bool Contains(const NumberSet& other) const { return !other.beyond_ && (other & *this) == other; }

  constexpr NumberSet operator&(const NumberSet& other) const {
    NumberSet both;
    for (size_t i = 0; i < kWords; ++i) both.words_[i] = words_[i] & other.words_[i];
    return both;
  }
  constexpr NumberSet operator|(const NumberSet& other) const {
    NumberSet any;
    for (size_t i = 0; i < kWords; ++i) any.words_[i] = words_[i] | other.words_[i];
    return any;
  }
  constexpr NumberSet operator-(const NumberSet& other) const {
    NumberSet rest;
    for (size_t i = 0; i < kWords; ++i) rest.words_[i] = words_[i] & ~other.words_[i];
    return rest;
  }
  constexpr bool operator==(const NumberSet&) const = default;

  // Calls visit(number) for each number in ascending order until it returns false. Returns whether every call returned
  // true.
  template <class Visitor>
  constexpr bool ForEach(Visitor&& visit) const {
    for (size_t i = 0; i < kWords; ++i) {
      for (uint32_t word = words_[i]; word != 0; word &= word - 1) {
        if (!visit(static_cast<Number>(i * 32 + static_cast<size_t>(std::countr_zero(word))))) return false;
      }
    }
    return true;
  }

  nfs4::bitmap4 ToBitmap() const { return nfs4::bitmap4(words_.begin(), words_.begin() + used_words()); }

  void Encode(xdr::Encoder& encoder) const {
    encoder.Length(used_words());
    for (size_t i = 0; i < used_words(); ++i) encoder.U32(words_[i]);
  }
  size_t encoded_size() const { return 4 + 4 * used_words(); }
  [[nodiscard]] bool Decode(xdr::Decoder& decoder) {
    *this = {};
    size_t count;
    if (!decoder.Length(count, decoder.remaining() / 4)) return false;
    for (size_t i = 0; i < count; ++i) {
      uint32_t word;
      if (!decoder.U32(word)) return false;
      AddWord(i, word);
    }
    return true;
  }

 private:
  static constexpr uint32_t BitOf(uint32_t value) { return uint32_t{1} << value % 32; }
  void AddWord(size_t index, uint32_t word) {
    if (index < kWords) {
      words_[index] |= word;
    } else {
      beyond_ |= word != 0;
    }
  }
  size_t used_words() const { return words_[2] ? 3 : words_[1] ? 2 : words_[0] ? 1 : 0; }

  std::array<uint32_t, kWords> words_{};
  bool beyond_ = false;
};

}  // namespace penstock::nfs_protocol
