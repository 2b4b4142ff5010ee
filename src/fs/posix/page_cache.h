// Reading what the kernel has in memory, without waiting for the disk.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// As much of the range as is in memory, from its start on; maybe nothing. Errors count as nothing: reading again and
// waiting meets them again.
size_t ReadCached(int fd, Bytes to, uint64_t offset, const Volume& volume);

// Reads until `to` is full or the file ends. May block.
Result<size_t> ReadWaiting(int fd, Bytes to, uint64_t offset);

// Whether all of the range is in memory, and the file that long but for less than a page.
bool IsCached(int fd, uint64_t offset, size_t size, const Volume& volume);

// Brings the range into memory, every octet of it, so that what cannot be read is known before anybody is promised it. Gives
// how many octets of it the file has. May block.
Result<size_t> PullIn(int fd, uint64_t offset, size_t size);

}  // namespace penstock::fs::posix
