#include "base/data.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace penstock {

Result<void, std::error_code> ReadRange(const FileDescriptor& file, uint64_t offset, Bytes to) {
  while (!to.empty()) {
    const ssize_t n = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::error_code error(errno, std::system_category());
      file.NoteUnreadable();
      return std::unexpected(error);
    }
    if (n == 0) break;
    to = to.subspan(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  std::ranges::fill(to, std::byte{0});
  return {};
}

Result<void, std::error_code> Data::CopyTo(Bytes to) const {
  assert(to.size() == size_);
  if (is_file()) return ReadRange(*file_, file_offset_, to);
  CopyBytes(to, memory_.bytes());
  return {};
}

Result<Slice, std::error_code> Data::Load(BufferPool& pool) const {
  if (!is_file()) return memory_;
  BufferRef buffer = pool.Allocate(size_);
  const Bytes octets = buffer->bytes().first(size_);
  PENSTOCK_CHECK(CopyTo(octets));
  return Slice(std::move(buffer), octets);
}

}  // namespace penstock
