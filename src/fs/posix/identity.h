// Acting as the caller, so that the kernel decides what the caller may do.
#pragma once

#include <sys/types.h>

#include <vector>

#include "fs/types.h"

namespace penstock::fs::posix {

// Who the server is. Started by root it acts as each caller in turn; else everybody acts as it.
class ServerIdentity {
 public:
  ServerIdentity();

  bool acts_as_callers() const { return acts_as_callers_; }
  // Whose rights count: the caller's, or the server's own.
  Credentials Effective(const Credentials& caller) const {
    return acts_as_callers_ ? caller : Credentials{uid_, gid_, groups_};
  }

 private:
  uid_t uid_;
  gid_t gid_;
  std::vector<uint32_t> groups_;
  bool acts_as_callers_;
};

// Takes from this thread, and from those that it starts later, the right to use space beyond quotas and limits, which root
// has (CAP_SYS_RESOURCE): what the server writes is its callers'.
void DropResourceOverride();

// While it lives, this thread (and no other) makes its system calls as the caller. The kernel takes the capabilities
// that override permissions from a thread whose file-system uid is not root's, and gives them back with it. Costs six
// short system calls (uid and gid: there, was it done, and back); the groups, which mean nothing to root, stay until
// another caller's are needed. Costs nothing for a caller who is root.
//
// For threads of the pool, never for a loop's. The thread's credentials are other ones afterwards, though they say the
// same, and the kernel refuses such a thread the RDMA devices that it has open.
class AsCaller {
 public:
  AsCaller(const ServerIdentity& server, const Credentials& caller);
  ~AsCaller();
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;

 private:
  const bool active_;
};

}  // namespace penstock::fs::posix
