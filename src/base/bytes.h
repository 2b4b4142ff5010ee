// Views of bytes, and big-endian access to them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace penstock {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// The bytes of a string, without its terminator. The view lives as long as `text`.
inline ConstBytes AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view AsText(ConstBytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline bool Equal(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// memcpy that accepts empty views (whose data() may be null). Requires to.size() >= from.size().
inline void CopyBytes(Bytes to, ConstBytes from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

// The value at `at` in network byte order. No alignment is needed; the caller has checked the bounds.
template <std::unsigned_integral T>
T LoadBig(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::little && sizeof(T) > 1) value = std::byteswap(value);
  return value;
}

template <std::unsigned_integral T>
void StoreBig(std::byte* at, T value) {
  if constexpr (std::endian::native == std::endian::little && sizeof(T) > 1) value = std::byteswap(value);
  std::memcpy(at, &value, sizeof value);
}

// `size` rounded up to a multiple of `unit`, a power of two. Must not overflow.
constexpr size_t RoundUp(size_t size, size_t unit) { return (size + unit - 1) & ~(unit - 1); }

}  // namespace penstock
