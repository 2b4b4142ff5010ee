#include "base/state_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/bytes.h"
#include "base/file_io.h"
#include "base/log.h"

namespace penstock {
namespace {

namespace stdfs = std::filesystem;

constexpr mode_t kOthers = 077;

// Returns " (process 17)" from the number that the holder of the lock wrote into it, or an empty string.
std::string HolderOf(int lock) {
  const auto content = ReadText(lock, 20);
  const std::string number = content ? content->substr(0, content->find_first_not_of("0123456789")) : "";
  return number.empty() ? "" : fmt::format(" (process {})", number);
}

// Makes the directory, and those above it, unless it exists. Only its owner may use a new one.
std::error_code MakeDirectory(const stdfs::path& named) {
  const stdfs::path directory = named.has_filename() ? named : named.parent_path();  // without a slash at the end
  std::error_code error;
  if (stdfs::is_directory(directory, error)) return {};
  error.clear();
  if (directory.has_parent_path()) stdfs::create_directories(directory.parent_path(), error);
  if (error) return error;
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return {errno, std::generic_category()};
}

// Succeeds if all files in the directory belong to `owner` or to root.
SetupResult<void> CheckOwners(const stdfs::path& directory, uid_t owner) {
  std::error_code error;
  for (stdfs::directory_iterator file(directory, error), end; !error && file != end; file.increment(error)) {
    struct stat stat{};
    if (::lstat(file->path().c_str(), &stat) != 0) {
      if (errno == ENOENT) continue;
      return std::unexpected(StateFileError("read", file->path(), errno));
    }
    if (stat.st_uid == owner || stat.st_uid == 0) continue;
    return std::unexpected(SetupError{fmt::format(
        "a group may write to the state directory {}, and {} in it belongs to user {}, not to the server: if that "
        "file is the server's own, give it to the server with chown, otherwise remove it",
        directory.string(), file->path().filename().string(), stat.st_uid)});
  }
  if (error) return std::unexpected(StateFileError("read", directory, error.value()));
  return {};
}

// The rights of a group are taken away: platforms of containers give them to the group of a volume at each start. Only
// if the group has replaced no file.
SetupResult<void> TakeRightsFromGroup(const stdfs::path& directory, const struct stat& stat) {
  const mode_t mode = stat.st_mode & 07777;
  if (::chmod(directory.c_str(), mode & ~S_IWGRP) != 0) {
    return std::unexpected(StateFileError("protect", directory, errno));
  }
  if (auto checked = CheckOwners(directory, stat.st_uid); !checked) {
    ::chmod(directory.c_str(), mode);  // or the next start would not look
    return checked;
  }
  log::warn("the group {} can no longer write to the state directory {}, which has keys (mode {:04o} before)",
            stat.st_gid, directory.string(), mode);
  return {};
}

// Whoever may write to the directory can replace the files in it, such as the key that signs file handles, unless the
// sticky bit protects them. Others may list the directory: each file in it is its owner's alone.
SetupResult<void> CheckRights(const stdfs::path& directory) {
  struct stat stat{};
  if (::stat(directory.c_str(), &stat) != 0) return std::unexpected(StateFileError("read", directory, errno));
  if ((stat.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (stat.st_mode & S_ISVTX) != 0) return {};
  const mode_t mode = stat.st_mode & 07777;
  if ((mode & S_IWOTH) == 0 && stat.st_uid == ::geteuid()) return TakeRightsFromGroup(directory, stat);
  return std::unexpected(SetupError{fmt::format(
      "other users may write to the state directory {} (mode {:04o}), and could replace the keys in it: run "
      "\"chmod go-w\" on it, or name a new directory below it with --state-dir, which penstock makes",
      directory.string(), mode)});
}

}  // namespace

// NOLINTBEGIN(concurrency-mt-unsafe): no thread changes the environment
stdfs::path DefaultStateDirectory() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state) return stdfs::path(state) / "penstock";
  if (::geteuid() == 0) return "/var/lib/penstock";
  if (const char* home = std::getenv("HOME"); home && *home) return stdfs::path(home) / ".local/state/penstock";
  return stdfs::temp_directory_path() / fmt::format("penstock-{}", ::geteuid());
}
// NOLINTEND(concurrency-mt-unsafe)

SetupResult<StateDirectory> StateDirectory::Open(const stdfs::path& directory) {
  if (const std::error_code error = MakeDirectory(directory)) {
    return std::unexpected(SetupError{fmt::format("cannot make the state directory {}: {}; choose one with --state-dir",
                                                  directory.string(), error.message())});
  }
  PENSTOCK_CHECK(CheckRights(directory));

  const stdfs::path file = directory / "lock";
  FileDescriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!lock) return std::unexpected(StateFileError("open", file, errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return std::unexpected(StateFileError("lock", file, errno));
    return std::unexpected(SetupError{
        fmt::format(
            "another penstock{} serves with the state directory {}: stop it, or give this one its own with --state-dir",
            HolderOf(lock.get()), directory.string()),
        EBUSY});
  }
  // Only the message above uses it, so a failure does not matter.
  if (::ftruncate(lock.get(), 0) == 0) {
    [[maybe_unused]] const auto written = WriteAllAt(lock.get(), AsBytes(fmt::format("{}\n", ::getpid())), 0);
  }
  return StateDirectory(directory, std::move(lock));
}

SetupError StateFileError(std::string_view what, const stdfs::path& file, int error) {
  std::string_view advice;
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      advice = "; make room, or choose another directory with --state-dir";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      advice = "; give the user who runs penstock the right to it, or choose another directory with --state-dir";
      break;
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENXIO:
      advice = "; it is not what penstock makes there: move it away";
      break;
    default:
      break;
  }
  return {fmt::format("cannot {} {}: {}{}", what, file.string(), DescribeErrno(error), advice), error};
}

SetupError DamagedStateFile(const stdfs::path& file, std::string_view how, std::string_view loss) {
  return {fmt::format("{} is damaged ({}): restore it, or move it away and start again; {}", file.string(), how, loss)};
}

SetupResult<std::optional<std::string>> ReadStateFile(const stdfs::path& file, size_t max_size, std::string_view loss) {
  // O_NONBLOCK: opening a FIFO must not block.
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return std::nullopt;
  struct stat stat{};
  if (!fd || ::fstat(fd.get(), &stat) != 0) return std::unexpected(StateFileError("read", file, errno));
  if (!S_ISREG(stat.st_mode)) return std::unexpected(DamagedStateFile(file, "not a regular file", loss));
  if ((stat.st_mode & kOthers) != 0 && ::fchmod(fd.get(), stat.st_mode & 0700) != 0) {
    return std::unexpected(StateFileError("protect", file, errno));
  }
  Result<std::string, int> content = ReadText(fd.get(), max_size + 1);
  if (!content) return std::unexpected(StateFileError("read", file, content.error()));
  if (content->size() > max_size) return std::unexpected(DamagedStateFile(file, "too long", loss));
  return *std::move(content);
}

SetupResult<void> WriteStateFile(const stdfs::path& file, std::string_view content) {
  const std::string fresh = file.string() + ".new";
  // An interrupted write may have left this file.
  ::unlink(fresh.c_str());
  const FileDescriptor fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const auto write = [&]() -> Result<void, int> {
    if (!fd) return std::unexpected(errno);
    PENSTOCK_CHECK(WriteAll(fd.get(), AsBytes(content)));
    const bool done =
        ::fsync(fd.get()) == 0 && ::rename(fresh.c_str(), file.c_str()) == 0 && SyncDirectory(file.parent_path());
    if (!done) return std::unexpected(errno);
    return {};
  };
  const auto written = write();
  if (written) return {};
  if (fd) ::unlink(fresh.c_str());
  return std::unexpected(StateFileError("write", file, written.error()));
}

bool SyncDirectory(const stdfs::path& directory) {
  const FileDescriptor fd(::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && ::fsync(fd.get()) == 0;
}

}  // namespace penstock
