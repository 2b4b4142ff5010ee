#include "fs/posix/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "fs/errno.h"

namespace penstock::fs::posix {
namespace {

// Reads as pread() does, but fails with EAGAIN instead of waiting.
ssize_t TryRead(int fd, Bytes to, uint64_t offset, const Volume& volume) {
  if (volume.in_memory) return ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
  const iovec range{to.data(), to.size()};
  return ::preadv2(fd, &range, 1, static_cast<off_t>(offset), RWF_NOWAIT);
}

// Reads as preadv2() does, but discards the octets: they go into the same few pages again and again, which stay in
// the processor's cache. This is several times faster than a copy, and faster than a query for each page.
ssize_t ReadAway(int fd, uint64_t offset, size_t size, int flags) {
  static thread_local std::array<std::byte, 16 << 10> sink;
  constexpr size_t kMost = 256;
  std::array<iovec, kMost> pieces;
  size_t count = 0;
  for (size_t left = size; left > 0 && count < kMost; ++count) {
    pieces[count] = {sink.data(), std::min(left, sink.size())};
    left -= pieces[count].iov_len;
  }
  return ::preadv2(fd, pieces.data(), static_cast<int>(count), static_cast<off_t>(offset), flags);
}

// Whether the kernel has every page of the range in memory. This takes a quarter of the time of ReadAway(), and does
// not touch the octets, which may be in another processor's cache. Returns no value if the kernel does not tell: for
// a file that the caller neither owns nor may write, mincore(2) reports all pages as present.
std::optional<bool> HasPages(int fd, uint64_t offset, size_t size) {
  static const bool tells = ::geteuid() == 0;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr size_t kMost = 1024;
  const uint64_t first = offset / page * page;
  const size_t length = size + (offset - first);
  std::array<unsigned char, kMost> resident;
  const size_t pages = (length + page - 1) / page;
  if (!tells || pages > kMost) return std::nullopt;
  void* const map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first));
  if (map == MAP_FAILED) return std::nullopt;
  const bool told = ::mincore(map, length, resident.data()) == 0;
  ::munmap(map, length);
  if (!told) return std::nullopt;
  return std::all_of(resident.begin(), resident.begin() + pages, [](unsigned char each) { return (each & 1) != 0; });
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
  if (const auto has_pages = HasPages(fd, offset, size)) return *has_pages;
  return ReadAway(fd, offset, size, RWF_NOWAIT) == static_cast<ssize_t>(size);
}

Result<size_t> PullIn(int fd, uint64_t offset, size_t size) {
  ::readahead(fd, static_cast<off_t>(offset), size);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ReadAway(fd, offset + done, size - done, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LastError();
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace penstock::fs::posix
