#include "cli/local_target.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "copying/local_access.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;
using std::filesystem::path;

constexpr std::string_view kAdvice = "; --in-place writes into the file itself";

std::unexpected<Error> Failure(const path& what, int error) {
  return std::unexpected(Error{fmt::format("{}: {}", what.native(), DescribeErrno(error)), std::nullopt});
}

path DirectoryOf(const path& file) { return file.has_parent_path() ? file.parent_path() : path("."); }

// Follows the symbolic links of `file` to their target, which need not exist. Sets `is_descriptor` if one of the links
// is in /proc/PID/fd. Such a link (for example /dev/stdout) stands for an open file, and a new file with its name would
// be another file.
path FollowLinks(path file, bool& is_descriptor) {
  constexpr int kMostLinks = 40;  // Linux follows as many
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

// Returns errno, or 0. A directory that is writable but not readable cannot be opened: then this syncs its whole file
// system.
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
  // Checked as open() does: a file that is not writable must not be replaced only because its directory is writable.
  if (exists && ::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) return Failure(path_, errno);
  return OpenTemporary(exists ? &status : nullptr);
}

Result<void> LocalTarget::OpenItself(int flags) {
  file_ = FileDescriptor(::open(path_.c_str(), flags | O_CLOEXEC, mode_));
  if (!file_) return Failure(path_, errno);
  return {};
}

Result<void> LocalTarget::OpenTemporary(const struct stat* old) {
  // Other users must not read the new file before it has the permissions of the old one.
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
  constexpr size_t kNameKept = 200;  // of the 255 bytes that a name may have
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
  const FileDescriptor replaced(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  const int error = replaced ? copying::KeepAccess(fd(), replaced.get(), old) : errno;
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
