// What nobody can foretell.
#pragma once

#include <sys/random.h>

#include <cassert>

#include "base/bytes.h"

namespace penstock {

// At most 256 octets: so few the kernel gives always and at once, after the machine has started. Any thread.
inline void FillRandomly(Bytes room) {
  assert(room.size() <= 256);
  [[maybe_unused]] const ssize_t size = ::getrandom(room.data(), room.size(), 0);
  assert(size == static_cast<ssize_t>(room.size()));
}

}  // namespace penstock
