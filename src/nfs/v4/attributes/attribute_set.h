// A set of attributes, by number: bitmap4 (RFC 8881 §3.3.7) without memory of its own.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "protocol/nfs4_attributes.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

class AttributeSet {
 public:
  // Attributes of higher numbers than any that we know are told from none at all, and no more: IsBeyond().
  static constexpr size_t kWords = 3;
  static constexpr uint32_t kEnd = kWords * 32;

  constexpr AttributeSet() = default;
  constexpr AttributeSet(std::initializer_list<uint32_t> numbers) {
    for (const uint32_t number : numbers) Add(number);
  }
  explicit AttributeSet(const nfs4::bitmap4& bitmap) {
    for (size_t i = 0; i < bitmap.size(); ++i) AddWord(i, bitmap[i]);
  }

  constexpr bool Has(uint32_t number) const { return number < kEnd && (words_[number / 32] >> number % 32 & 1) != 0; }
  constexpr void Add(uint32_t number) {
    assert(number < kEnd);
    words_[number / 32] |= uint32_t{1} << number % 32;
  }
  constexpr void Remove(uint32_t number) { words_[number / 32] &= ~(uint32_t{1} << number % 32); }

  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2]) == 0; }
  // There was an attribute of a number that no attribute of ours has.
  constexpr bool IsBeyond() const { return beyond_; }
  constexpr bool Intersects(const AttributeSet& other) const { return !(*this & other).empty(); }
  constexpr bool Contains(const AttributeSet& other) const { return !other.beyond_ && (other & *this) == other; }

  constexpr AttributeSet operator&(const AttributeSet& other) const {
    AttributeSet both;
    for (size_t i = 0; i < kWords; ++i) both.words_[i] = words_[i] & other.words_[i];
    return both;
  }
  constexpr AttributeSet operator|(const AttributeSet& other) const {
    AttributeSet any;
    for (size_t i = 0; i < kWords; ++i) any.words_[i] = words_[i] | other.words_[i];
    return any;
  }
  constexpr AttributeSet operator-(const AttributeSet& other) const {
    AttributeSet rest;
    for (size_t i = 0; i < kWords; ++i) rest.words_[i] = words_[i] & ~other.words_[i];
    return rest;
  }
  constexpr bool operator==(const AttributeSet&) const = default;

  // visit(number) for each, in ascending order, for as long as it returns true. What ForEach returns says whether it
  // always did.
  template <class Visitor>
  constexpr bool ForEach(Visitor&& visit) const {
    for (size_t i = 0; i < kWords; ++i) {
      for (uint32_t word = words_[i]; word != 0; word &= word - 1) {
        if (!visit(static_cast<uint32_t>(i * 32) + static_cast<uint32_t>(std::countr_zero(word)))) return false;
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

}  // namespace penstock::nfs::v4
