#include "copying/local_access.h"

#include <fmt/core.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

namespace penstock::copying {
namespace {

constexpr char kAcl[] = "system.posix_acl_access";

// Copies the access control list of `from` to `to`. If `from` has none, removes the list that `to` may have got from
// the default list of its directory. Returns errno, or 0.
int KeepAcl(int from, int to) {
  // A descriptor with O_PATH gives extended attributes only by this name.
  const std::string path = fmt::format("/proc/self/fd/{}", from);
  const ssize_t size = ::getxattr(path.c_str(), kAcl, nullptr, 0);
  if (size < 0) {
    if (errno == EOPNOTSUPP) return 0;
    if (errno != ENODATA) return errno;
    return ::fremovexattr(to, kAcl) == 0 || errno == ENODATA || errno == EOPNOTSUPP ? 0 : errno;
  }
  std::vector<char> list(static_cast<size_t>(size));
  const ssize_t got = ::getxattr(path.c_str(), kAcl, list.data(), list.size());
  if (got < 0) return errno;
  return ::fsetxattr(to, kAcl, list.data(), static_cast<size_t>(got), 0) == 0 ? 0 : errno;
}

}  // namespace

int KeepAccess(int made, int old_fd, const struct stat& old) {
  struct stat now{};
  if (::fstat(made, &now) != 0) return errno;
  if ((now.st_uid != old.st_uid || now.st_gid != old.st_gid) && ::fchown(made, old.st_uid, old.st_gid) != 0) {
    return errno;
  }
  const int error = KeepAcl(old_fd, made);
  if (error != 0) return error;
  return ::fchmod(made, old.st_mode & 0777) == 0 ? 0 : errno;
}

}  // namespace penstock::copying
