// A fast digest of words and octets. It is not secure: a peer can construct collisions.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace penstock {

constexpr uint64_t Mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0x9e37'79b9'7f4a'7c15u;
  return state ^ (state >> 29);
}

// Pads an incomplete last word with zeros.
inline uint64_t Mix(uint64_t state, ConstBytes octets) {
  for (; octets.size() >= 8; octets = octets.subspan(8)) state = Mix(state, LoadBig<uint64_t>(octets.data()));
  std::byte last[8] = {};
  CopyBytes(last, octets);
  return Mix(state, LoadBig<uint64_t>(last));
}

}  // namespace penstock
