// A lease on a file tells the server that a program of its own machine is about to change the file, before the
// program can do so.
#pragma once

#include <memory>

namespace penstock::fs {

// A lease on one file. No method waits, so it may be used with a lock held. One thread at a time.
class LocalLease {
 public:
  // Gives the lease up: programs that wait for it continue.
  virtual ~LocalLease() = default;

  // Whether a program wants to open the file for writing, or to truncate it, and waits until the lease is given up.
  // Once true, it stays true. The system lets no program wait for ever: it may revoke the lease.
  virtual bool IsBroken() const = 0;
};

struct LeaseReply {
  std::shared_ptr<LocalLease> lease{};  // null if no lease was granted
  // a program has the file open for writing or is about to open it; a later attempt may succeed
  bool contended = false;
};

}  // namespace penstock::fs
