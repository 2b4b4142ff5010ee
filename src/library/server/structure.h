// Structures of the C API that begin with their size, so that they can grow: a host that was built with an older header
// gives a shorter one, and a host that was built with a newer header gives a longer one.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <expected>
#include <span>

namespace penstock::library {

// Copies a structure that the host has given. What it does not have keeps the value that it has in `defaults`. Fails
// with EINVAL if the size is too small for any version of the structure, and with E2BIG if the host sets something that
// this library does not know.
template <class T>
std::expected<T, int> Adopt(const T* given, const T& defaults) {
  if (!given) return defaults;
  if (given->size < sizeof given->size) return std::unexpected(EINVAL);
  T known = defaults;
  std::memcpy(&known, given, std::min(given->size, sizeof(T)));
  known.size = sizeof(T);
  if (given->size <= sizeof(T)) return known;
  const std::span rest(reinterpret_cast<const std::byte*>(given) + sizeof(T), given->size - sizeof(T));
  const bool is_zero = std::ranges::all_of(rest, [](std::byte octet) { return octet == std::byte{0}; });
  if (!is_zero) return std::unexpected(E2BIG);
  return known;
}

}  // namespace penstock::library
