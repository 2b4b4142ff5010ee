#include "fs/posix/local_lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace penstock::fs::posix {

LeaseReply FileLease::Take(const SharedFile& file, Workers& pool) {
  // The whole process owns the signal, because the thread that takes the lease may end before it.
  ::fcntl(file->get(), F_SETOWN, ::getpid());
  if (::fcntl(file->get(), F_SETLEASE, F_RDLCK) != 0) return {.lease = nullptr, .contended = errno == EAGAIN};
  return {.lease = std::make_shared<FileLease>(file, pool)};
}

FileLease::~FileLease() {
  // Another holder may share the file for a moment.
  ::fcntl(file_->get(), F_SETLEASE, F_UNLCK);
  // Closing a removed file frees its space, which takes time.
  pool_.Post([last = std::move(file_)] {});
}

// F_GETLEASE returns the future type of the lease while the kernel waits for its holder, and the forced type after
// the kernel has waited too long.
bool FileLease::IsBroken() const { return ::fcntl(file_->get(), F_GETLEASE) != F_RDLCK; }

}  // namespace penstock::fs::posix
