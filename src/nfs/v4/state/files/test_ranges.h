// For tests of locked ranges: short names.
#pragma once

#include <cstdint>

#include "nfs/v4/state/files/lock_ranges.h"

namespace penstock::nfs::v4 {

inline constexpr uint64_t kEnd = UINT64_MAX;

inline LockedRange Shared(uint64_t first, uint64_t last) { return {{first, last}, false}; }
inline LockedRange Exclusive(uint64_t first, uint64_t last) { return {{first, last}, true}; }

}  // namespace penstock::nfs::v4
