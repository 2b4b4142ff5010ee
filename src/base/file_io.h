// Reads and writes of files that repeat the system call until all octets are moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace penstock {

// Each function blocks, is thread-safe, and returns errno on failure; a part of the octets may have been moved before.

// Writes at the descriptor's position. Works for files, pipes and terminals.
[[nodiscard]] Result<void, int> WriteAll(int fd, ConstBytes octets);
// Writes to the file from `offset` on.
[[nodiscard]] Result<void, int> WriteAllAt(int fd, ConstBytes octets, uint64_t offset);
// Returns the number of octets read, which is less than octets.size() only at the end of the file.
[[nodiscard]] Result<size_t, int> ReadUpTo(int fd, Bytes octets, uint64_t offset);

}  // namespace penstock
