// Reads data that the kernel has in memory, without waiting for the disk.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Reads the first part of the range that is in memory, which may be empty. Errors are ignored: a later read that
// waits reports them.
size_t ReadCached(int fd, Bytes to, uint64_t offset, const Volume& volume);

// Reads until `to` is full or the file ends. May block.
Result<size_t> ReadWaiting(int fd, Bytes to, uint64_t offset);

// Whether the whole range is in memory, and the file long enough but for less than a page.
bool IsCached(int fd, uint64_t offset, size_t size, const Volume& volume);

// Reads the whole range into the page cache, so that read errors are known before the data is promised to a client.
// Returns the number of octets of the range that the file has. May block.
Result<size_t> PullIn(int fd, uint64_t offset, size_t size);

}  // namespace penstock::fs::posix
