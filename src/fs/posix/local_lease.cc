#include "fs/posix/local_lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace penstock::fs::posix {

LeaseReply FileLease::Take(const SharedFile& file, Workers& pool) {
  // For the process, whichever of its threads takes the lease and ends before it.
  ::fcntl(file->get(), F_SETOWN, ::getpid());
  if (::fcntl(file->get(), F_SETLEASE, F_RDLCK) != 0) return {.lease = nullptr, .contended = errno == EAGAIN};
  return {.lease = std::make_shared<FileLease>(file, pool)};
}

FileLease::~FileLease() {
  // Somebody else may share the file for a moment yet.
  ::fcntl(file_->get(), F_SETLEASE, F_UNLCK);
  // Closing a file that was removed frees its space, which takes time.
  pool_.Post([last = std::move(file_)] {});
}

// The kernel says what the lease is to become, also while it waits for that; and what it has made of it where it has waited too long.
bool FileLease::IsBroken() const { return ::fcntl(file_->get(), F_GETLEASE) != F_RDLCK; }

}  // namespace penstock::fs::posix
