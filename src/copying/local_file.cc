#include "copying/local_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file_io.h"
#include "copying/local_access.h"
#include "idmap/database.h"
#include "idmap/owner_text.h"

namespace penstock::copying {
namespace {

// Returns false if a name is unknown.
bool OwnersOf(LocalTree& tree, const NewAttributes& attributes, uid_t& owner, gid_t& group) {
  if (attributes.owner) {
    const auto number = NumberOf(tree, idmap::Kind::kUser, *attributes.owner);
    if (!number) return false;
    owner = *number;
  }
  if (attributes.group) {
    const auto number = NumberOf(tree, idmap::Kind::kGroup, *attributes.group);
    if (!number) return false;
    group = *number;
  }
  return true;
}

timespec TimeToSet(const std::optional<std::variant<client::ServerTime, client::Time>>& time) {
  if (!time) return {0, UTIME_OMIT};
  if (std::holds_alternative<client::ServerTime>(*time)) return {0, UTIME_NOW};
  const auto& given = std::get<client::Time>(*time);
  return {given.seconds, static_cast<long>(given.nanoseconds)};
}

template <class Chown, class Chmod, class SetTimes>
int Set(LocalTree& tree, const NewAttributes& attributes, Chown chown, Chmod chmod, SetTimes set_times) {
  if (attributes.owner || attributes.group) {
    auto owner = static_cast<uid_t>(-1);
    auto group = static_cast<gid_t>(-1);
    if (!OwnersOf(tree, attributes, owner, group)) return EINVAL;
    if (chown(owner, group) != 0) return errno;
  }
  // After the owner, whose change clears the set-user-ID bit.
  if (attributes.mode && chmod(static_cast<mode_t>(*attributes.mode)) != 0) return errno;
  if (attributes.accessed || attributes.modified) {
    const std::array<timespec, 2> times = {TimeToSet(attributes.accessed), TimeToSet(attributes.modified)};
    if (set_times(times.data()) != 0) return errno;
  }
  return 0;
}

Result<void> ResultOf(int error) {
  if (error != 0) return std::unexpected(LocalError(error));
  return {};
}

}  // namespace

std::optional<uint32_t> NumberOf(LocalTree& tree, idmap::Kind kind, const std::string& text) {
  if (const auto number = idmap::NumberIn(text)) return number;
  const auto name = idmap::NameIn(text, tree.domain());
  if (!name) return std::nullopt;
  const idmap::Answer found = idmap::AskHost({.kind = kind, .of = std::string(*name)});
  if (!found || !*found) return std::nullopt;
  return (*found)->id;
}

int ApplyTo(LocalTree& tree, int fd, const NewAttributes& attributes) {
  return Set(
      tree, attributes, [&](uid_t owner, gid_t group) { return ::fchown(fd, owner, group); },
      [&](mode_t mode) { return ::fchmod(fd, mode); }, [&](const timespec* times) { return ::futimens(fd, times); });
}

int SetAttributesAt(LocalTree& tree, int directory, const std::string& name, const NewAttributes& attributes) {
  struct stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  return Set(
      tree, attributes,
      [&](uid_t owner, gid_t group) { return ::fchownat(directory, name.c_str(), owner, group, AT_SYMLINK_NOFOLLOW); },
      [&](mode_t mode) {
        if (S_ISLNK(status.st_mode)) return 0;
        return ::fchmodat(directory, name.c_str(), mode, AT_SYMLINK_NOFOLLOW) == 0 ||
                       (errno == EOPNOTSUPP && ::fchmodat(directory, name.c_str(), mode, 0) == 0)
                   ? 0
                   : -1;
      },
      [&](const timespec* times) { return ::utimensat(directory, name.c_str(), times, AT_SYMLINK_NOFOLLOW); });
}

Created CreateAt(int directory, const std::string& name, const NewFile& file) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  // As open() checks: a file that is not writable must not be replaced only because its directory is writable.
  if (file.like && ::faccessat(directory, file.like->c_str(), W_OK, AT_EACCESS) != 0 && errno != ENOENT) {
    return {errno, FileDescriptor(-1)};
  }
  // Other users must not read the new file before it has the permissions of the old one.
  const mode_t mode = file.like ? 0600 : static_cast<mode_t>(file.mode);
  Created created{0, FileDescriptor(::openat(directory, name.c_str(), flags, mode))};
  if (!created.fd) {
    created.error = errno;
    return created;
  }
  if (!file.like) return created;
  const FileDescriptor old(::openat(directory, file.like->c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!old || ::fstat(old.get(), &status) != 0) {
    // Somebody has removed it.
    if (errno != ENOENT) created.error = errno;
  } else if (S_ISREG(status.st_mode)) {
    created.error = KeepAccess(created.fd.get(), old.get(), status);
  }
  if (created.error != 0) ::unlinkat(directory, name.c_str(), 0);
  return created;
}

LocalFile::LocalFile(LocalTree& tree, FileDescriptor fd, const struct stat& status) : tree_(tree), fd_(std::move(fd)) {
  attributes_ = AttributesOf(status);
}

Task<Result<Slice>> LocalFile::Read(uint64_t offset, Bytes into) {
  const auto read = co_await Offload(tree_.loop(), tree_.workers(),
                                     [fd = fd_.get(), offset, into] { return ReadUpTo(fd, into, offset); });
  if (!read) co_return std::unexpected(LocalError(read.error()));
  co_return Slice::Borrowed(into.first(*read));
}

Task<Result<uint32_t>> LocalFile::Write(uint64_t offset, ConstBytes from) {
  const auto write = [fd = fd_.get(), offset, from] {
    const auto done = WriteAllAt(fd, from, offset);
    // The disk works while the next pieces come, so that Sync() has little to wait for.
    if (done)
      (void)::sync_file_range(fd, static_cast<off64_t>(offset), static_cast<off64_t>(from.size()),
                              SYNC_FILE_RANGE_WRITE);
    return done;
  };
  const Budget::Share turn = co_await writers_.Take(1);
  const auto written = co_await Offload(tree_.loop(), tree_.workers(), write);
  if (!written) co_return std::unexpected(LocalError(written.error()));
  co_return static_cast<uint32_t>(from.size());
}

Task<Result<std::vector<Extent>>> LocalFile::DataIn(Extent range) {
  const auto find = [fd = fd_.get(), range]() -> Result<std::vector<Extent>> {
    std::vector<Extent> found;
    uint64_t at = range.begin;
    while (at < range.end) {
      const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) {
        // A hole at the end, or a file that has become shorter, which reading tells.
        struct stat status{};
        if (::fstat(fd, &status) != 0) return std::unexpected(LocalError(errno));
        if (static_cast<uint64_t>(status.st_size) < range.end) found.push_back({at, range.end});
        break;
      }
      // The file system does not know holes.
      if (data < 0 && errno == EINVAL) return std::vector{range};
      const off_t hole = data < 0 ? data : ::lseek(fd, data, SEEK_HOLE);
      if (hole < 0) return std::unexpected(LocalError(errno));
      if (static_cast<uint64_t>(data) >= range.end) break;
      found.push_back({static_cast<uint64_t>(data), std::min(range.end, static_cast<uint64_t>(hole))});
      at = static_cast<uint64_t>(hole);
    }
    return found;
  };
  co_return co_await Offload(tree_.loop(), tree_.workers(), find);
}

Task<Result<std::optional<uint64_t>>> LocalFile::CopyFrom(File& source, Extent range) {
  auto* const from = dynamic_cast<LocalFile*>(&source);
  if (!from) co_return std::nullopt;
  const auto copy = [in = from->fd_.get(), out = fd_.get(), range]() -> Result<std::optional<uint64_t>> {
    auto in_offset = static_cast<off64_t>(range.begin), out_offset = in_offset;
    const ssize_t copied = ::copy_file_range(in, &in_offset, out, &out_offset, range.size(), 0);
    if (copied > 0) return static_cast<uint64_t>(copied);
    if (copied < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG)) {
      return std::unexpected(LocalError(errno));
    }
    // The file systems cannot do that, or the source has become shorter, which reading tells.
    return std::nullopt;
  };
  co_return co_await Offload(tree_.loop(), tree_.workers(), copy);
}

Task<Result<bool>> LocalFile::Sync() {
  const int error =
      co_await Offload(tree_.loop(), tree_.workers(), [fd = fd_.get()] { return ::fsync(fd) == 0 ? 0 : errno; });
  if (error != 0) co_return std::unexpected(LocalError(error));
  co_return true;
}

Task<Result<void>> LocalFile::ForgetCached() {
  const int error = co_await Offload(tree_.loop(), tree_.workers(), [fd = fd_.get()] {
    return ::fsync(fd) == 0 ? ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) : errno;
  });
  co_return ResultOf(error);
}

Task<Result<void>> LocalFile::SetSize(uint64_t size) {
  const int error = co_await Offload(tree_.loop(), tree_.workers(), [fd = fd_.get(), size] {
    return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
  });
  co_return ResultOf(error);
}

Task<Result<void>> LocalFile::SetAttributes(const NewAttributes& attributes) {
  const int error = co_await Offload(tree_.loop(), tree_.workers(),
                                     [this, fd = fd_.get(), &attributes] { return ApplyTo(tree_, fd, attributes); });
  co_return ResultOf(error);
}

Task<Result<void>> LocalFile::Close() {
  fd_ = FileDescriptor(-1);
  co_return Result<void>();
}

}  // namespace penstock::copying
