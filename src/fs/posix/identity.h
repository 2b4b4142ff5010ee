// Acts as the caller of a request, so that the kernel checks what the caller may do.
#pragma once

#include <sys/types.h>

#include <vector>

#include "fs/types.h"

namespace penstock::fs::posix {

// The identity of the server process. If root started it, it acts as each caller in turn; otherwise all callers act
// as the server's user.
class ServerIdentity {
 public:
  ServerIdentity();

  bool acts_as_callers() const { return acts_as_callers_; }
  // The credentials whose rights count: the caller's, or the server's own.
  Credentials Effective(const Credentials& caller) const {
    return acts_as_callers_ ? caller : Credentials{uid_, gid_, groups_};
  }

 private:
  uid_t uid_;
  gid_t gid_;
  std::vector<uint32_t> groups_;
  bool acts_as_callers_;
};

// Takes CAP_SYS_RESOURCE from this thread and from the threads that it starts later. With it, root may exceed quotas
// and limits, which must not happen for data of callers.
void DropResourceOverride();

// While an instance lives, this thread (and no other) makes its system calls as the caller. The kernel removes the
// capabilities that override permissions from a thread whose file-system uid is not root's, and restores them
// afterwards. This costs six short system calls (set, check and restore uid and gid). The groups have no effect for
// root and stay until another caller needs other groups. It costs nothing if the caller is root.
//
// Only for threads of the pool, not for a loop's thread. Afterwards the thread has new credentials with the same
// contents, and the kernel refuses such a thread the use of RDMA devices that it opened before.
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
