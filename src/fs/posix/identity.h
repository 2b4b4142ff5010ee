// Acts as the caller of a request, so that the kernel checks what the caller may do. Without root's rights the server
// cannot do that, and Tree checks it instead (tree_permission.cc).
#pragma once

#include <sys/types.h>

#include <vector>

#include "fs/types.h"

namespace penstock::fs::posix {

// Whose rights decide what a caller may do.
enum class CallerRights : uint8_t {
  kBest,      // the caller's: the server acts as the caller if it has root's rights, else it is kChecked
  kChecked,   // the caller's, within the rights of the server's user. Tree compares them with mode bits and lists
  kOfServer,  // those of the server's user, for every caller. Also for a server that could act as its callers
};

// The identity of the server process, and what it means for callers.
class ServerIdentity {
 public:
  explicit ServerIdentity(CallerRights rights = CallerRights::kBest);

  bool acts_as_callers() const { return mode_ == Mode::kActs; }
  // Whether the server acts as its own user for this caller, but must not do all that this user may do. The caller with
  // the uid of the server's user is that user. Root that was not squashed may do what the server may do.
  bool Checks(const Credentials& caller) const {
    return mode_ == Mode::kChecks && caller.uid != uid_ && caller.uid != 0;
  }
  // The credentials whose rights count: the caller's, or the server's own.
  Credentials Effective(const Credentials& caller) const {
    return acts_as_callers() || Checks(caller) ? caller : own();
  }
  Credentials own() const { return {uid_, gid_, groups_}; }

 private:
  enum class Mode : uint8_t { kActs, kChecks, kIsItself };

  uid_t uid_;
  gid_t gid_;
  std::vector<uint32_t> groups_;
  Mode mode_;
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
