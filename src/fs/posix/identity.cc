#include "fs/posix/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "base/thread.h"

namespace penstock::fs::posix {
namespace {

constexpr uid_t kNobody = 65534;

// The groups of this thread, if it has set them.
thread_local std::optional<std::vector<uint32_t>> thread_groups;

// Calls the kernel directly, because setgroups() of glibc would change all threads. Invalid groups (unknown to a user
// namespace, or -1) leave the thread with none.
bool SetThreadGroups(std::span<const uint32_t> groups) {
  if (thread_groups && std::ranges::equal(*thread_groups, groups)) return true;
  const bool done = ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
  if (!done && ::syscall(SYS_setgroups, 0, nullptr) != 0) return false;
  if (!thread_groups) thread_groups.emplace();
  thread_groups->assign(groups.begin(), groups.end());
  return true;
}

// setfsuid() does not report failure. A second call with an invalid uid returns the current one.
bool SetFileSystemUid(uid_t uid) {
  ::setfsuid(uid);
  return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == uid;
}
bool SetFileSystemGid(gid_t gid) {
  ::setfsgid(gid);
  return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == gid;
}

// Tries it on a thread of its own. The calling thread would lose its groups, and would have new credentials afterwards:
// the kernel refuses such a thread, and those that it starts, the use of RDMA devices that it opened before.
bool CanActAsOthers() {
  if (::geteuid() != 0) return false;
  bool can = false;
  const auto attempt = [&can] { can = SetThreadGroups({}) && SetFileSystemGid(kNobody) && SetFileSystemUid(kNobody); };
  try {
    StartThread("penstock-rights", attempt).join();
  } catch (const std::system_error&) {
    // Without a thread it stays unknown: the server then checks its callers itself.
  }
  return can;
}

}  // namespace

ServerIdentity::ServerIdentity(CallerRights rights)
    : uid_(::geteuid()), gid_(::getegid()), mode_(rights == CallerRights::kOfServer ? Mode::kIsItself : Mode::kChecks) {
  if (rights == CallerRights::kBest && CanActAsOthers()) mode_ = Mode::kActs;
  groups_.resize(std::max(::getgroups(0, nullptr), 0));
  groups_.resize(std::max(::getgroups(static_cast<int>(groups_.size()), groups_.data()), 0));
}

void DropResourceOverride() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return;
  __user_cap_data_struct& set = sets[CAP_TO_INDEX(CAP_SYS_RESOURCE)];
  set.effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
  set.permitted &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
  ::syscall(SYS_capset, &header, sets.data());
}

AsCaller::AsCaller(const ServerIdentity& server, const Credentials& caller)
    : active_(server.acts_as_callers() && (caller.uid != 0 || caller.gid != 0)) {
  if (!active_) return;
  // An invalid caller id becomes nobody, because root's rights would be a security hole. At the start the server
  // checked that it can become nobody.
  if (!SetFileSystemGid(caller.gid)) SetFileSystemGid(kNobody);
  if (caller.uid == 0) return;
  SetThreadGroups(caller.groups);
  if (!SetFileSystemUid(caller.uid)) SetFileSystemUid(kNobody);
}

AsCaller::~AsCaller() {
  if (!active_) return;
  const int error = errno;  // errno of the caller's system calls
  ::setfsuid(0);
  ::setfsgid(0);
  errno = error;
}

}  // namespace penstock::fs::posix
