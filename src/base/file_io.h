// Reads and writes of files that repeat the system call until all octets are moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

// Returns at most `size` octets from the beginning of the file.
[[nodiscard]] Result<std::string, int> ReadText(int fd, size_t size);
// Returns the content of a regular file of at most `most_mebibytes`, or the reason why it cannot be read, for people.
// Does not wait for another program, as the opening of a FIFO does.
[[nodiscard]] Result<std::string, std::string> ReadRegularFile(const std::string& name, size_t most_mebibytes);

}  // namespace penstock
