// System calls on files, until all is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace penstock {

// Each of them blocks, may be called on any thread, and gives errno where it fails; something may have been moved before.

// At the descriptor's position: of files, pipes, terminals.
[[nodiscard]] Result<void, int> WriteAll(int fd, ConstBytes octets);
// From `offset` of the file on.
[[nodiscard]] Result<void, int> WriteAllAt(int fd, ConstBytes octets, uint64_t offset);
// Gives how many octets there were: fewer than `octets` has room for only at the file's end.
[[nodiscard]] Result<size_t, int> ReadUpTo(int fd, Bytes octets, uint64_t offset);

}  // namespace penstock
