#include "base/failing_disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

namespace penstock {
namespace {

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> IdOf(const std::string& path) {
  struct stat file{};
  if (::stat(path.c_str(), &file) != 0) return std::nullopt;
  return FileId(file.st_dev, file.st_ino);
}

std::optional<FileId> IdOf(int fd) {
  struct stat file{};
  if (::fstat(fd, &file) != 0) return std::nullopt;
  return FileId(file.st_dev, file.st_ino);
}

constexpr std::array<std::pair<std::string_view, DiskCall>, 8> kCalls{{{"pread", DiskCall::kRead},
                                                                       {"preadv", DiskCall::kReadVector},
                                                                       {"pwrite", DiskCall::kWrite},
                                                                       {"sendfile", DiskCall::kSendFile},
                                                                       {"fsync", DiskCall::kSync},
                                                                       {"writeback", DiskCall::kWriteBack},
                                                                       {"copy", DiskCall::kCopy},
                                                                       {"fallocate", DiskCall::kAllocate}}};
constexpr std::array<std::pair<std::string_view, int>, 5> kErrors{
    {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG}, {"EINTR", EINTR}}};

template <class Table>
auto Find(const Table& table, std::string_view name) -> std::optional<decltype(table[0].second)> {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return std::nullopt;
}

[[noreturn]] void Refuse(const std::string& line) {
  std::fprintf(stderr, "failing disk: not a rule: %s\n", line.c_str());
  std::abort();
}

// A rule whose file does not exist yet applies once the file exists.
DiskFault Parse(const std::string& line) {
  std::istringstream words(line);
  std::string call, how, path, times, from;
  words >> call >> how >> path >> times >> from;
  const auto known = Find(kCalls, call);
  if (!known || path.empty()) Refuse(line);
  DiskFault fault{.call = *known, .path = path};
  if (const auto error = Find(kErrors, how)) {
    fault.error = *error;
  } else if (how == "hang") {
    fault.hangs = true;
  } else if (how.starts_with("slow=")) {
    fault.slow_ms = static_cast<unsigned>(std::stoul(how.substr(5)));
  } else if (how.starts_with("short=")) {
    fault.at_most = std::stoul(how.substr(6));
  } else {
    Refuse(line);
  }
  if (!times.empty() && times != "-") fault.times = static_cast<unsigned>(std::stoul(times));
  if (!from.empty()) fault.from = std::stoull(from);
  return fault;
}

// The faults of the process, shared by all threads.
class Disk {
 public:
  static Disk& Of() {
    static Disk& disk = *new Disk;  // never destroyed: calls may come until the process ends
    return disk;
  }

  void Add(const DiskFault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }
  void ForgetSyncs() {
    const std::lock_guard lock(mutex_);
    syncs_.clear();
  }
  size_t CountSyncs(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto id = IdOf(path);
    return id ? syncs_[*id] : 0;
  }

  std::optional<uid_t> LastWriter(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto id = IdOf(path);
    const auto found = id ? writers_.find(*id) : writers_.end();
    return found == writers_.end() ? std::nullopt : std::optional(found->second);
  }

  size_t CountHanging() {
    const std::lock_guard lock(mutex_);
    return hanging_;
  }
  bool HasFaultsOf(DiskCall call) {
    const std::lock_guard lock(mutex_);
    Reload();
    return std::ranges::find(faults_, call, &DiskFault::call) != faults_.end();
  }

  // Returns the fault of a call on the file's octets from `begin` to `end`. Waits for a slow call if `may_wait`.
  DiskFault Meet(DiskCall call, int fd, uint64_t begin, uint64_t end, bool may_wait) {
    DiskFault met{.call = call};
    {
      const std::lock_guard lock(mutex_);
      Reload();
      const bool notes = call == DiskCall::kSync || call == DiskCall::kWrite;
      if (faults_.empty() && !notes) return met;
      const auto id = IdOf(fd);
      if (!id) return met;
      if (call == DiskCall::kSync) Note(*id, fd);
      if (call == DiskCall::kWrite) writers_[*id] = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1)));
      for (DiskFault& fault : faults_) {
        if (fault.call != call || fault.times == 0 || end <= fault.from || IdOf(fault.path) != id) continue;
        if ((fault.hangs || fault.slow_ms != 0) && !may_wait) return {.call = call, .error = EAGAIN};
        if (fault.error == 0 || fault.from <= begin) --fault.times;
        met = fault;
        break;
      }
    }
    if (met.hangs) Hang(met);
    if (met.slow_ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds(met.slow_ms));
    return met;
  }

 private:
  Disk() {
    // NOLINTBEGIN(concurrency-mt-unsafe): nothing changes the environment of a program under test
    if (const char* path = std::getenv("TEST_FAILING_DISK")) rules_ = path;
    if (const char* path = std::getenv("TEST_FAILING_DISK_LOG")) log_ = path;
    // NOLINTEND(concurrency-mt-unsafe)
  }

  void Reload() {
    struct stat now{};
    if (rules_.empty() || ::stat(rules_.c_str(), &now) != 0) return;
    if (now.st_ino == loaded_.st_ino && now.st_mtim.tv_sec == loaded_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == loaded_.st_mtim.tv_nsec) {
      return;
    }
    loaded_ = now;
    faults_.clear();
    std::ifstream rules(rules_);
    for (std::string line; std::getline(rules, line);) {
      if (!line.empty()) faults_.push_back(Parse(line));
    }
  }

  // Waits until the rule is removed.
  void Hang(const DiskFault& met) {
    std::unique_lock lock(mutex_);
    ++hanging_;
    if (!log_.empty()) std::ofstream(log_, std::ios::app) << "hangs " << met.path << '\n';
    const auto is_rule = [&](const DiskFault& fault) {
      return fault.hangs && fault.call == met.call && fault.path == met.path;
    };
    while (std::ranges::any_of(faults_, is_rule)) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      lock.lock();
      Reload();
    }
    --hanging_;
  }

  void Note(const FileId& id, int fd) {
    ++syncs_[id];
    if (log_.empty()) return;
    std::array<char, 4096> name{};
    const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name.data(), name.size() - 1);
    std::ofstream(log_, std::ios::app) << "fsync " << std::string(name.data(), std::max<ssize_t>(size, 0)) << '\n';
  }

  std::mutex mutex_;
  std::vector<DiskFault> faults_;
  std::map<FileId, size_t> syncs_;
  std::map<FileId, uid_t> writers_;
  size_t hanging_ = 0;
  std::string rules_, log_;
  struct stat loaded_{};
};

std::atomic<int64_t> clock_tick = 0;  // in nanoseconds
std::atomic<uint64_t> free_space = UINT64_MAX;

void Coarsen(statx_timestamp& time) {
  const int64_t tick = clock_tick.load();
  if (tick == 0) return;
  const int64_t whole = (time.tv_sec * 1'000'000'000 + time.tv_nsec) / tick * tick;
  time.tv_sec = whole / 1'000'000'000;
  time.tv_nsec = static_cast<uint32_t>(whole % 1'000'000'000);
}

template <class Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// Returns the pieces, cut off after `most` octets.
std::vector<iovec> Shorten(const iovec* pieces, int count, size_t most) {
  std::vector<iovec> shorter;
  for (int i = 0; i < count && most > 0; ++i) {
    shorter.push_back({pieces[i].iov_base, std::min(pieces[i].iov_len, most)});
    most -= shorter.back().iov_len;
  }
  return shorter;
}

// Returns false if the call fails. Otherwise reduces `size` to the octets before the first one that fails, as a disk
// does.
bool Passes(DiskCall call, int fd, uint64_t offset, size_t& size, bool may_wait = true) {
  const DiskFault fault = Disk::Of().Meet(call, fd, offset, offset + std::max<size_t>(size, 1), may_wait);
  size = std::min(size, fault.at_most);
  if (fault.error == 0) return true;
  if (fault.from > offset) {
    size = std::min<uint64_t>(size, fault.from - offset);
    return true;
  }
  errno = fault.error;
  return false;
}

template <class Call>
ssize_t Transfer(DiskCall call, int fd, const iovec* pieces, int count, uint64_t offset, int flags, Call real) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  size_t may_move = size;
  if (!Passes(call, fd, offset, may_move, (flags & RWF_NOWAIT) == 0)) return -1;
  if (may_move == size) return real(pieces, count);
  const std::vector<iovec> shorter = Shorten(pieces, count, may_move);
  return real(shorter.data(), static_cast<int>(shorter.size()));
}

}  // namespace

void FailingDisk::Fail(const DiskFault& fault) { Disk::Of().Add(fault); }
void FailingDisk::Mend() { Disk::Of().Clear(); }
std::optional<uid_t> FailingDisk::LastWriter(const std::string& path) { return Disk::Of().LastWriter(path); }
void FailingDisk::set_free_space(std::optional<uint64_t> octets) { free_space = octets.value_or(UINT64_MAX); }
void FailingDisk::set_clock_tick(std::chrono::nanoseconds tick) { clock_tick = tick.count(); }
void FailingDisk::ForgetSyncs() { Disk::Of().ForgetSyncs(); }
size_t FailingDisk::CountHanging() { return Disk::Of().CountHanging(); }
size_t FailingDisk::CountSyncs(const std::string& path) { return Disk::Of().CountSyncs(path); }

}  // namespace penstock

// These functions replace those of the C library. The suffix 64 means large-file support; here both names are the same
// call.

using penstock::DiskCall;
using penstock::Passes;
using penstock::Real;
using penstock::Transfer;

extern "C" {

ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  static const auto real = Real<decltype(&::pread)>("pread");
  if (!Passes(DiskCall::kRead, fd, static_cast<uint64_t>(offset), size)) return -1;
  return real(fd, to, size, offset);
}
ssize_t pread64(int fd, void* to, size_t size, off64_t offset) { return ::pread(fd, to, size, offset); }

ssize_t pwrite(int fd, const void* from, size_t size, off_t offset) {
  static const auto real = Real<decltype(&::pwrite)>("pwrite");
  if (!Passes(DiskCall::kWrite, fd, static_cast<uint64_t>(offset), size)) return -1;
  return real(fd, from, size, offset);
}
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t offset) { return ::pwrite(fd, from, size, offset); }

ssize_t preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  static const auto real = Real<decltype(&::preadv2)>("preadv2");
  return Transfer(DiskCall::kReadVector, fd, pieces, count, static_cast<uint64_t>(offset), flags,
                  [&](const iovec* some, int few) { return real(fd, some, few, offset, flags); });
}
ssize_t preadv64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return ::preadv2(fd, pieces, count, offset, flags);
}

ssize_t pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  static const auto real = Real<decltype(&::pwritev2)>("pwritev2");
  return Transfer(DiskCall::kWrite, fd, pieces, count, static_cast<uint64_t>(offset), flags,
                  [&](const iovec* some, int few) { return real(fd, some, few, offset, flags); });
}
ssize_t pwritev64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return ::pwritev2(fd, pieces, count, offset, flags);
}

ssize_t sendfile(int to, int fd, off_t* offset, size_t size) {
  static const auto real = Real<decltype(&::sendfile)>("sendfile");
  if (!Passes(DiskCall::kSendFile, fd, static_cast<uint64_t>(offset ? *offset : 0), size)) return -1;
  return real(to, fd, offset, size);
}
ssize_t sendfile64(int to, int fd, off64_t* offset, size_t size) { return ::sendfile(to, fd, offset, size); }

int fsync(int fd) {
  static const auto real = Real<decltype(&::fsync)>("fsync");
  size_t size = 1;
  return Passes(DiskCall::kSync, fd, 0, size) ? real(fd) : -1;
}
int fdatasync(int fd) {
  static const auto real = Real<decltype(&::fdatasync)>("fdatasync");
  size_t size = 1;
  return Passes(DiskCall::kSync, fd, 0, size) ? real(fd) : -1;
}

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
  static const auto real = Real<decltype(&::sync_file_range)>("sync_file_range");
  size_t any = 1;
  return Passes(DiskCall::kWriteBack, fd, 0, any) ? real(fd, offset, size, flags) : -1;
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static const auto real = Real<decltype(&::fallocate)>("fallocate");
  auto length = static_cast<size_t>(size);
  return Passes(DiskCall::kAllocate, fd, static_cast<uint64_t>(offset), length) ? real(fd, mode, offset, size) : -1;
}
int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return ::fallocate(fd, mode, offset, size); }

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t size, unsigned flags) {
  static const auto real = Real<decltype(&::copy_file_range)>("copy_file_range");
  for (const auto& [fd, offset] : {std::pair(from, from_offset), std::pair(to, to_offset)}) {
    if (!Passes(DiskCall::kCopy, fd, static_cast<uint64_t>(offset ? *offset : 0), size)) return -1;
  }
  return real(from, from_offset, to, to_offset, size, flags);
}

// The page cache still has the octets that the disk should have lost. So if reading fails, mincore() reports them as
// not in memory, and the caller reads.
int mincore(void* start, size_t size, unsigned char* resident) {
  static const auto real = Real<decltype(&::mincore)>("mincore");
  if (!penstock::Disk::Of().HasFaultsOf(DiskCall::kReadVector)) return real(start, size, resident);
  errno = EAGAIN;
  return -1;
}

int fstatvfs(int fd, struct statvfs* to) {
  static const auto real = Real<decltype(&::fstatvfs)>("fstatvfs");
  const int result = real(fd, to);
  if (const uint64_t octets = penstock::free_space; octets != UINT64_MAX) to->f_bavail = octets / to->f_frsize;
  return result;
}
int fstatvfs64(int fd, struct statvfs64* to) {
  static_assert(sizeof(struct statvfs) == sizeof(struct statvfs64));
  return ::fstatvfs(fd, reinterpret_cast<struct statvfs*>(to));
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* to) {
  static const auto real = Real<decltype(&::statx)>("statx");
  const int result = real(directory, path, flags, mask, to);
  if (result == 0) {
    penstock::Coarsen(to->stx_ctime);
    penstock::Coarsen(to->stx_mtime);
  }
  return result;
}

}  // extern "C"
