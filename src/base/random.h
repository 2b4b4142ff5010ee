// Unpredictable random octets.
#pragma once

#include <sys/random.h>

#include <cassert>

#include "base/bytes.h"

namespace penstock {

// Fills `room`, at most 256 octets, with random octets from the kernel. The kernel returns so few at once, without
// failure, once the machine has started. Thread-safe.
inline void FillRandomly(Bytes room) {
  assert(room.size() <= 256);
  [[maybe_unused]] const ssize_t size = ::getrandom(room.data(), room.size(), 0);
  assert(size == static_cast<ssize_t>(room.size()));
}

}  // namespace penstock
