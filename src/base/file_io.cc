#include "base/file_io.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/data.h"

namespace penstock {
namespace {

// `write` makes the system call for the remaining octets, given the number of octets written before, and returns its
// result.
template <class Write>
Result<void, int> WriteEach(ConstBytes octets, Write write) {
  for (size_t written = 0; written < octets.size();) {
    const ssize_t n = write(octets.subspan(written), written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(errno);
    if (n == 0) return std::unexpected(EIO);
    written += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<void, int> WriteAll(int fd, ConstBytes octets) {
  return WriteEach(octets, [fd](ConstBytes rest, size_t) { return ::write(fd, rest.data(), rest.size()); });
}

Result<void, int> WriteAllAt(int fd, ConstBytes octets, uint64_t offset) {
  return WriteEach(octets, [fd, offset](ConstBytes rest, size_t written) {
    return ::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(offset + written));
  });
}

Result<size_t, int> ReadUpTo(int fd, Bytes octets, uint64_t offset) {
  size_t have = 0;
  while (have < octets.size()) {
    const ssize_t n = ::pread(fd, octets.data() + have, octets.size() - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(errno);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  return have;
}

Result<std::string, int> ReadText(int fd, size_t size) {
  std::string content(size, '\0');
  PENSTOCK_TRY(const size_t have, ReadUpTo(fd, std::as_writable_bytes(std::span(content)), 0));
  content.resize(have);
  return content;
}

Result<std::string, std::string> ReadRegularFile(const std::string& name, size_t most_mebibytes) {
  const FileDescriptor fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat stat{};
  if (!fd || ::fstat(fd.get(), &stat) != 0) return std::unexpected(DescribeErrno(errno));
  if (!S_ISREG(stat.st_mode)) return std::unexpected("not a regular file");
  const size_t most = most_mebibytes << 20;
  auto text = ReadText(fd.get(), most + 1);
  if (!text) return std::unexpected(DescribeErrno(text.error()));
  if (text->size() > most) return std::unexpected(fmt::format("longer than {} MiB", most_mebibytes));
  return *std::move(text);
}

}  // namespace penstock
