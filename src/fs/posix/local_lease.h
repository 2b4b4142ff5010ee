// Leases on the real file (fcntl(2), F_SETLEASE).
#pragma once

#include <memory>
#include <utility>

#include "base/workers.h"
#include "fs/local_lease.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// A read lease. Opening the file for writing breaks it, and so does truncate(2): that waits until the lease is given up, for
// /proc/sys/fs/lease-break-time seconds at most, or fails with EWOULDBLOCK where it must not wait. Opens of the server's own are
// no exception. The process gets SIGIO when a lease is broken.
class FileLease final : public LocalLease {
 public:
  // `file` is open for reading. Takes the file's owner, or CAP_LEASE. `pool` closes the file, and outlives the lease.
  static LeaseReply Take(const SharedFile& file, Workers& pool);

  FileLease(SharedFile file, Workers& pool) : file_(std::move(file)), pool_(pool) {}
  ~FileLease() override;

  bool IsBroken() const override;

 private:
  SharedFile file_;
  Workers& pool_;
};

}  // namespace penstock::fs::posix
