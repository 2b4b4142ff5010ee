#include "cli/local_target.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;
using std::filesystem::path;

constexpr char kAcl[] = "system.posix_acl_access";
constexpr std::string_view kAdvice = "; --in-place writes into the file itself";

std::unexpected<Error> Failure(const path& what, int error) {
  return std::unexpected(Error{fmt::format("{}: {}", what.native(), DescribeErrno(error)), std::nullopt});
}

path DirectoryOf(const path& file) { return file.has_parent_path() ? file.parent_path() : path("."); }

// Where `file` leads to; nothing need be there. Sets `is_descriptor` where a link on the way is one of /proc/PID/fd, which
// stands for an open file (/dev/stdout): a file under the same name would be another one.
path FollowLinks(path file, bool& is_descriptor) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const path target = std::filesystem::read_symlink(file, error);
    if (error) break;
    struct statfs where{};
    if (::statfs(DirectoryOf(file).c_str(), &where) == 0 && where.f_type == PROC_SUPER_MAGIC) is_descriptor = true;
    file = DirectoryOf(file) / target;
  }
  return file;
}

// Gives the open file the access control list of the other, or none where that has none: a directory may have a default
// one. errno, or 0.
int KeepAcl(const path& from, int to) {
  const ssize_t size = ::getxattr(from.c_str(), kAcl, nullptr, 0);
  if (size < 0) {
    if (errno == EOPNOTSUPP) return 0;
    if (errno != ENODATA) return errno;
    return ::fremovexattr(to, kAcl) == 0 || errno == ENODATA || errno == EOPNOTSUPP ? 0 : errno;
  }
  std::vector<char> list(static_cast<size_t>(size));
  const ssize_t got = ::getxattr(from.c_str(), kAcl, list.data(), list.size());
  if (got < 0) return errno;
  return ::fsetxattr(to, kAcl, list.data(), static_cast<size_t>(got), 0) == 0 ? 0 : errno;
}

// errno, or 0. A directory that may be written to and not read has no descriptor: then its file system is synced.
int SyncDirectory(const path& directory, int file_in_it) {
  const FileDescriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno == EACCES && ::syncfs(file_in_it) == 0 ? 0 : errno;
  // Some file systems cannot sync directories.
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

Result<void> LocalTarget::Open() {
  if (!path_.has_filename()) return Failure(path_, EISDIR);
  struct stat status{};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return Failure(path_, errno);
  if (exists && !S_ISREG(status.st_mode)) {
    is_stream_ = true;
    return OpenItself(O_WRONLY);
  }
  bool is_descriptor = false;
  replaced_ = FollowLinks(path_, is_descriptor);
  if (in_place_ || is_descriptor) return OpenItself(O_WRONLY | O_CREAT);
  // As open() would ask: that the directory may be written to is no leave to replace a file that may not.
  if (exists && ::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) return Failure(path_, errno);
  return OpenTemporary(exists ? &status : nullptr);
}

Result<void> LocalTarget::OpenItself(int flags) {
  file_ = FileDescriptor(::open(path_.c_str(), flags | O_CLOEXEC, mode_));
  if (!file_) return Failure(path_, errno);
  return {};
}

Result<void> LocalTarget::OpenTemporary(const struct stat* old) {
  // Nobody but us may read what replaces a file until it has that file's permissions.
  const int error = CreateTemporary(old ? 0600 : mode_);
  if (error != 0) {
    if (!old) return Failure(path_, error);
    return std::unexpected(Error{
        fmt::format("{}: cannot make a temporary file beside it: {}{}", path_.native(), DescribeErrno(error), kAdvice),
        std::nullopt});
  }
  if (old) return KeepAccess(*old);
  return {};
}

int LocalTarget::CreateTemporary(mode_t mode) {
  constexpr size_t kNameKept = 200;  // of 255 octets
  constexpr int kTries = 100;
  std::random_device random;
  const std::string name = replaced_.filename().native().substr(0, kNameKept);
  const std::scoped_lock lock(mutex_);
  for (int i = 0; i < kTries && !discarded_; ++i) {
    path made = DirectoryOf(replaced_) / fmt::format(".{}.penstock-{:08x}", name, random());
    const int fd = ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) {
      file_ = FileDescriptor(fd);
      temporary_ = std::move(made);
      return 0;
    }
    if (errno != EEXIST) return errno;
  }
  return discarded_ ? ECANCELED : EEXIST;
}

Result<void> LocalTarget::KeepAccess(const struct stat& old) const {
  struct stat made{};
  int error = ::fstat(fd(), &made) == 0 ? 0 : errno;
  if (error == 0 && (made.st_uid != old.st_uid || made.st_gid != old.st_gid) &&
      ::fchown(fd(), old.st_uid, old.st_gid) != 0) {
    error = errno;
  }
  if (error == 0) error = KeepAcl(path_, fd());
  // Without the set-user-ID and set-group-ID bits, which a write takes away, too.
  if (error == 0 && ::fchmod(fd(), old.st_mode & 0777) != 0) error = errno;
  if (error == 0) return {};
  return std::unexpected(Error{fmt::format("{}: a new file cannot have its owner and permissions: {}{}", path_.native(),
                                           DescribeErrno(error), kAdvice),
                               std::nullopt});
}

Result<void> LocalTarget::Commit() {
  if (is_stream_) return {};
  if (::fsync(fd()) != 0) return Failure(path_, errno);
  {
    const std::scoped_lock lock(mutex_);
    if (discarded_) return Failure(path_, ECANCELED);
    if (temporary_.empty()) return {};
    if (::rename(temporary_.c_str(), replaced_.c_str()) != 0) {
      return std::unexpected(Error{
          fmt::format("{}: cannot be replaced: {}{}", path_.native(), DescribeErrno(errno), kAdvice), std::nullopt});
    }
    temporary_.clear();
  }
  const int error = SyncDirectory(DirectoryOf(replaced_), fd());
  if (error != 0) return Failure(DirectoryOf(replaced_), error);
  return {};
}

void LocalTarget::Discard() {
  const std::scoped_lock lock(mutex_);
  discarded_ = true;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

}  // namespace penstock::cli
