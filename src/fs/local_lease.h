// Leases tell the server that a program of its own machine is about to change a file, before the program can.
#pragma once

#include <memory>

namespace penstock::fs {

// On one file. Nothing waits, so it may be used with a lock held. One thread at a time.
class LocalLease {
 public:
  // Gives the lease up: programs that wait for it go on.
  virtual ~LocalLease() = default;

  // A program wants to open the file for writing, or to truncate it, and waits until the lease is given up. Once true, this
  // stays true. The system lets no program wait for ever: it may take the lease away.
  virtual bool IsBroken() const = 0;
};

struct LeaseReply {
  std::shared_ptr<LocalLease> lease{};  // null where there is none to be had
  bool contended = false;  // somebody has the file open for writing, or is about to: there may be a lease later
};

}  // namespace penstock::fs
