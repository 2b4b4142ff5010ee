#include "fs/posix/path.h"

#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

#include "fs/errno.h"

namespace penstock::fs::posix {

std::optional<std::string> PathOf(int fd) {
  char path[PATH_MAX];
  const ssize_t length = ::readlink(ProcPath(fd).c_str(), path, sizeof path);
  if (length <= 0 || length == sizeof path) return std::nullopt;
  return std::string(path, static_cast<size_t>(length));
}

std::optional<Result<FileDescriptor>> OpenEntry(int directory, const std::string& name, Patience patience) {
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  if (patience == Patience::kNone) how.resolve |= RESOLVE_CACHED;
  const long fd = ::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how);
  if (fd >= 0) return FileDescriptor(static_cast<int>(fd));
  if (errno == EAGAIN && patience == Patience::kNone) return std::nullopt;
  if (errno == EXDEV) return std::unexpected(Error::kAccess);
  return LastError();
}

ProcPath::ProcPath(int fd) {
  constexpr std::string_view kPrefix = "/proc/self/fd/";
  std::memcpy(text_.data(), kPrefix.data(), kPrefix.size());
  *std::to_chars(text_.data() + kPrefix.size(), text_.data() + text_.size() - 1, fd).ptr = '\0';
}

Result<FileDescriptor> Reopen(int fd, int flags) {
  const int reopened = ::open(ProcPath(fd).c_str(), flags | O_CLOEXEC);
  if (reopened < 0) return LastError();
  return FileDescriptor(reopened);
}

bool IsBeneath(int fd, int root) {
  const std::optional<std::string> path = PathOf(fd);
  std::optional<std::string> root_path = PathOf(root);
  if (!path || !root_path) return false;
  if (*path == *root_path) return true;
  if (root_path->back() != '/') *root_path += '/';
  return path->starts_with(*root_path);
}

}  // namespace penstock::fs::posix
