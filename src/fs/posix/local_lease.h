// Leases that the kernel keeps on the file (fcntl(2), F_SETLEASE).
#pragma once

#include <memory>
#include <utility>

#include "base/workers.h"
#include "fs/local_lease.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// A read lease. It is broken when a program opens the file for writing or truncates it. That program waits until the
// lease is given up, at most for the seconds of /proc/sys/fs/lease-break-time, or fails with EWOULDBLOCK if it must
// not wait. Opens by the server break the lease as well. The kernel sends SIGIO to the process when a lease is
// broken.
class FileLease final : public LocalLease {
 public:
  // `file` is open for reading. Needs the file's owner or CAP_LEASE. `pool` closes the file, and outlives the lease.
  static LeaseReply Take(const SharedFile& file, Workers& pool);

  FileLease(SharedFile file, Workers& pool) : file_(std::move(file)), pool_(pool) {}
  ~FileLease() override;

  bool IsBroken() const override;

 private:
  SharedFile file_;
  Workers& pool_;
};

}  // namespace penstock::fs::posix
