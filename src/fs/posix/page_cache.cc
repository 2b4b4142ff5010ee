#include "fs/posix/page_cache.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "fs/posix/error.h"

namespace penstock::fs::posix {
namespace {

// As pread(), but EAGAIN instead of waiting.
ssize_t TryRead(int fd, Bytes to, uint64_t offset, const Volume& volume) {
  if (volume.in_memory) return ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
  const iovec range{to.data(), to.size()};
  return ::preadv2(fd, &range, 1, static_cast<off_t>(offset), RWF_NOWAIT);
}

}  // namespace

size_t ReadCached(int fd, Bytes to, uint64_t offset, const Volume& volume) {
  const ssize_t count = TryRead(fd, to, offset, volume);
  return count > 0 ? static_cast<size_t>(count) : 0;
}

Result<size_t> ReadWaiting(int fd, Bytes to, uint64_t offset) {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LastError();
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

bool IsCached(int fd, uint64_t offset, size_t size, const Volume& volume) {
  if (volume.in_memory) return true;
  std::byte octet[1];
  return TryRead(fd, octet, offset, volume) >= 0 && TryRead(fd, octet, offset + size - 1, volume) >= 0;
}

Result<void> PullIn(int fd, uint64_t offset, size_t size) {
  ::readahead(fd, static_cast<off_t>(offset), size);
  // An octet of each of the kernel's largest requests waits for all of it.
  constexpr size_t kStep = 128 << 10;
  std::byte octet[1];
  for (size_t at = 0; at < size; at += kStep) {
    PENSTOCK_TRY([[maybe_unused]] const size_t count, ReadWaiting(fd, octet, offset + at));
  }
  PENSTOCK_TRY([[maybe_unused]] const size_t count, ReadWaiting(fd, octet, offset + size - 1));
  return {};
}

}  // namespace penstock::fs::posix
