#include "nfs/v4/state/stable/session_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/log.h"
#include "base/state_directory.h"

namespace penstock::nfs::v4 {

namespace stdfs = std::filesystem;

namespace {

constexpr const char* kLoss = "without it, calls that clients send again are not known, and some may be executed twice";
// The octets of disk space that sessions leave free, because the recovery store on the same disk must be able to grow.
constexpr uint64_t kLeftFree = 16 << 20;

}  // namespace

SetupResult<std::unique_ptr<SessionFiles>> SessionFiles::Open(const std::string& directory) {
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  FileDescriptor fd(made || errno == EEXIST ? ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  if (!fd) return std::unexpected(StateFileError("use the directory", directory, errno));
  if (made && !SyncDirectory(stdfs::path(directory).parent_path())) {
    return std::unexpected(StateFileError("write", directory, errno));
  }
  return std::unique_ptr<SessionFiles>(new SessionFiles(directory, std::move(fd)));
}

SetupResult<void> SessionFiles::ForEach(const std::function<SetupResult<bool>(const stdfs::path&)>& load) const {
  std::error_code error;
  std::vector<stdfs::path> unfinished;
  for (stdfs::directory_iterator entries(directory_, error), end; !error && entries != end; entries.increment(error)) {
    PENSTOCK_TRY(const bool finished, load(entries->path()));
    if (!finished) unfinished.push_back(entries->path());
  }
  if (error) return std::unexpected(StateFileError("read", directory_, error.value()));
  for (const stdfs::path& path : unfinished) ::unlink(path.c_str());
  return {};
}

bool SessionFiles::HasRoom(uint64_t size) {
  struct statvfs room;
  errno = ENOSPC;
  if (::fstatvfs(fd_.get(), &room) == 0 && uint64_t{room.f_bavail} * room.f_frsize >= kLeftFree + size) return true;
  TellFailure(directory_, errno);
  return false;
}

void SessionFiles::TellFailure(const stdfs::path& path, int error) {
  if (failing_.exchange(true)) return;
  log::warn("{}; until then NFSv4 sessions are not persistent", StateFileError("write", path, error).message);
}

SessionFiles::File SessionFiles::Create(const std::string& name, ConstBytes head, uint64_t size) {
  const stdfs::path path = directory_ / name;
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd && Prepare(fd.get(), head, size)) {
    failing_ = false;
    return {path, std::move(fd)};
  }
  TellFailure(path, errno);
  if (fd) ::unlink(path.c_str());
  return {path, FileDescriptor(-1)};
}

// If it returns false, errno has the error.
bool SessionFiles::Prepare(int fd, ConstBytes head, uint64_t size) const {
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size))) {
    errno = error;
    return false;
  }
  struct statvfs room;
  if (::fstatvfs(fd, &room) != 0) return false;
  if (uint64_t{room.f_bavail} * room.f_frsize < kLeftFree) {
    errno = ENOSPC;
    return false;
  }
  if (const auto written = WriteAllAt(fd, head, 0); !written) {
    errno = written.error();
    return false;
  }
  return ::fsync(fd) == 0 && ::fsync(fd_.get()) == 0;
}

SessionFiles::Kind SessionFiles::KindOf(ConstBytes head, uint64_t found, uint64_t magic, bool is_sound) {
  constexpr uint64_t kFamily = ~uint64_t{0xffff};
  if (std::ranges::all_of(head, [](std::byte octet) { return octet == std::byte{}; })) return Kind::kUnfinished;
  if (found != magic) return (found & kFamily) == (magic & kFamily) ? Kind::kOtherVersion : Kind::kForeign;
  return is_sound ? Kind::kWhole : Kind::kDamaged;
}

bool SessionFiles::HasNameOfSession(const stdfs::path& path, size_t octets) {
  const std::string name = path.filename();
  return name.size() == 2 * octets && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::unexpected<SetupError> SessionFiles::Refusal(const stdfs::path& path, Kind kind) {
  switch (kind) {
    case Kind::kOtherVersion:
      return Damaged(path, "made by another version of penstock");
    case Kind::kForeign:
      return Damaged(path, "not a file of penstock's");
    case Kind::kWhole:
    case Kind::kUnfinished:
    case Kind::kDamaged:
      break;
  }
  return Damaged(path, "its head is garbled");
}

std::unexpected<SetupError> SessionFiles::Damaged(const stdfs::path& path, std::string_view how) {
  return std::unexpected(DamagedStateFile(path, how, kLoss));
}

}  // namespace penstock::nfs::v4
