// The source of the unpredictable parts of verifiers and session IDs.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace penstock::nfs::v4 {

// Any thread.
inline uint64_t SystemRandom() {
  uint64_t value;
  FillRandomly(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace penstock::nfs::v4
