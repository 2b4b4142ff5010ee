// Structures of the C API, which begin with their size and may grow (include/penstock/penstock.h).
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <expected>
#include <span>

#include "library/error_text.h"

namespace penstock::library {

// Copies a structure that the host has given. What it does not have keeps the value that it has in `defaults`. Fails
// with EINVAL if the size is too small for any version of the structure, and with E2BIG if the host sets something that
// this library does not know.
template <class Structure>
std::expected<Structure, int> Adopt(const Structure* given, const Structure& defaults) {
  if (!given) return defaults;
  const size_t size = given->size;
  if (size < sizeof size) return std::unexpected(EINVAL);
  Structure known = defaults;
  std::memcpy(&known, given, std::min(size, sizeof known));
  known.size = sizeof known;
  if (size <= sizeof known) return known;
  const std::span rest(reinterpret_cast<const std::byte*>(given) + sizeof known, size - sizeof known);
  const bool is_zero = std::ranges::all_of(rest, [](std::byte octet) { return octet == std::byte{}; });
  if (!is_zero) return std::unexpected(E2BIG);
  return known;
}

// The same, into `to`, which has the defaults. Returns zero or a negative errno, with its text.
template <class Structure>
int TakeStructure(const Structure* from, Structure& to) {
  if (from && from->size == sizeof to) {
    to = *from;
    return 0;
  }
  const auto adopted = Adopt(from, to);
  if (adopted) {
    to = *adopted;
    return 0;
  }
  return Fail(adopted.error(), adopted.error() == E2BIG ? "a structure has values that this version does not know"
                                                        : "the size of a structure is not set");
}

// Whether a result can be given in this structure. Returns zero or a negative errno.
template <class Structure>
int CheckRoom(const Structure* to) {
  if (!to) return Fail(EINVAL, "there is no room for the result");
  if (to->size < sizeof(size_t)) return Fail(EINVAL, "the size of a structure is not set");
  return 0;
}

// Copies as much of `from` as the caller's structure has room for.
template <class Structure>
void GiveStructure(const Structure& from, Structure& to) {
  const size_t size = to.size;
  std::memcpy(&to, &from, std::min(size, sizeof(Structure)));
  to.size = size;
}

}  // namespace penstock::library
