// Structures of the C API, which begin with their size and may grow (include/penstock/penstock.h).
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "library/error_text.h"

namespace penstock::library {

// Copies a structure of the caller over the defaults in `to`. What the caller's structure does not have stays. A null
// `from` leaves all defaults. Returns zero or a negative errno.
template <class Structure>
int TakeStructure(const Structure* from, Structure& to) {
  if (!from) return 0;
  const size_t size = from->size;
  if (size < sizeof(size_t)) return Fail(EINVAL, "the size of a structure is not set");
  const auto* const octets = reinterpret_cast<const std::byte*>(from);
  for (size_t i = sizeof(Structure); i < size; ++i) {
    if (octets[i] != std::byte{}) return Fail(E2BIG, "a structure has values that this version does not know");
  }
  std::memcpy(&to, octets, std::min(size, sizeof(Structure)));
  to.size = sizeof(Structure);
  return 0;
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
