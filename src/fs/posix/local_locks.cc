#include "fs/posix/local_locks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fs/posix/open_objects.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {
namespace {

constexpr uint64_t kLargest = INT64_MAX;  // the largest offset

// Returns no value for a range beyond the offsets that local programs can lock.
std::optional<struct flock> ToKernel(uint64_t first, uint64_t last, short type) {
  if (first > kLargest) return std::nullopt;
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(first);
  // Zero means up to the end.
  lock.l_len = last >= kLargest ? 0 : static_cast<off_t>(last - first + 1);
  return lock;
}

short TypeOf(bool exclusive) { return exclusive ? F_WRLCK : F_RDLCK; }

// Whether the server cannot open the file at all: because of the file's mode, because it is immutable or on a
// read-only file system, or because it is being executed (ETXTBSY). A lease is not such a reason: the open breaks it.
bool IsForbidden(Error error) { return error == Error::kAccess || error == Error::kPerm || error == Error::kReadOnly; }

}  // namespace

OfdLocks::OfdLocks(SharedFile file, Workers& pool)
    : file_(std::move(file)), can_exclude_((::fcntl(file_->get(), F_GETFL) & O_ACCMODE) == O_RDWR), pool_(pool) {}

OfdLocks::~OfdLocks() {
  Unlock(0, UINT64_MAX);
  // Closing a removed file frees its space, which takes time.
  pool_.Post([last = std::move(file_)]() mutable { last.reset(); });
}

std::optional<LocalLocks::Conflict> OfdLocks::Lock(uint64_t first, uint64_t last, bool exclusive) {
  // The kernel grants no exclusive lock on a file that is open for reading only. A shared lock at least excludes
  // writers. Existing locks of readers still conflict.
  if (exclusive && !can_exclude_) {
    if (auto reader = Test(first, last, true)) return reader;
  }
  auto lock = ToKernel(first, last, TypeOf(exclusive && can_exclude_));
  if (!lock || ::fcntl(file_->get(), F_OFD_SETLK, &*lock) == 0) return std::nullopt;
  // the kernel cannot lock the file at all, so no other program has a lock
  if (errno != EAGAIN && errno != EACCES) return std::nullopt;
  // The conflicting lock may be gone by now; then the requested range is returned.
  return Test(first, last, exclusive).value_or(Conflict{first, last, true});
}

void OfdLocks::Unlock(uint64_t first, uint64_t last) {
  auto lock = ToKernel(first, last, F_UNLCK);
  if (lock) ::fcntl(file_->get(), F_OFD_SETLK, &*lock);
}

std::optional<LocalLocks::Conflict> OfdLocks::Test(uint64_t first, uint64_t last, bool exclusive) const {
  auto lock = ToKernel(first, last, TypeOf(exclusive));
  if (!lock || ::fcntl(file_->get(), F_OFD_GETLK, &*lock) != 0 || lock->l_type == F_UNLCK) return std::nullopt;
  const auto start = static_cast<uint64_t>(lock->l_start);
  return Conflict{.first = start,
                  .last = lock->l_len == 0 ? UINT64_MAX : start + static_cast<uint64_t>(lock->l_len) - 1,
                  .exclusive = lock->l_type == F_WRLCK,
                  .process = lock->l_pid > 0 ? static_cast<uint64_t>(lock->l_pid) : 0};
}

// Opens the file for reading only if the lock is shared. Opening it for writing would break leases on it, including
// the server's own, although a reader does not conflict with them.
Result<SharedFile> OpenForLocks(const Object& object, bool exclusive, OpenObjects& objects) {
  const auto open = [&](int mode) {
    return objects.OpenResult([&] { return Reopen(object.fd(), mode | O_NONBLOCK); });
  };
  Result<FileDescriptor> opened = open(exclusive ? O_RDWR : O_RDONLY);
  if (!opened && exclusive && IsForbidden(opened.error())) opened = open(O_RDONLY);
  if (!opened && IsForbidden(opened.error())) return nullptr;
  if (!opened) return std::unexpected(opened.error());
  return objects.ShareFor(OpenObjects::Purpose::kLocks, *std::move(opened));
}

bool KeepsLocksInMemory(int fd) {
  struct statfs fs{};
  if (::fstatfs(fd, &fs) != 0) return false;
  constexpr long kElsewhere[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,   CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                 FUSE_SUPER_MAGIC, V9FS_MAGIC,        CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
                                 AFS_FS_MAGIC,     OCFS2_SUPER_MAGIC,
                                 0x01161970,   // GFS2
                                 0x0bd00bd0};  // Lustre
  return std::ranges::find(kElsewhere, static_cast<long>(fs.f_type)) == std::end(kElsewhere);
}

}  // namespace penstock::fs::posix
