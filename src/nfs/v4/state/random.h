// Where verifiers and session IDs have their unpredictable part from.
#pragma once

#include <sys/random.h>

#include <cassert>
#include <cstdint>

namespace penstock::nfs::v4 {

// Any thread. The kernel gives so few octets always and at once, after the machine has started.
inline uint64_t SystemRandom() {
  uint64_t value;
  [[maybe_unused]] const ssize_t size = ::getrandom(&value, sizeof value, 0);
  assert(size == sizeof value);
  return value;
}

}  // namespace penstock::nfs::v4
