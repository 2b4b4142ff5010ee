#include "fs/posix/quota.h"

#include <linux/dqblk_xfs.h>
#include <linux/quota.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "fs/errno.h"

namespace penstock::fs::posix {
namespace {

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

// The octets of a block of the kernel's interface, whatever the file system's blocks are.
constexpr uint64_t kBlock = 1 << 10;

int TypeOf(QuotaKind kind) { return kind == QuotaKind::kUser ? USRQUOTA : GRPQUOTA; }

// The kernel answers a call with a descriptor that is not open by EBADF if it knows the call.
bool HasQuotactlFd() {
  static const bool has = ::syscall(SYS_quotactl_fd, -1, QCMD(Q_GETQUOTA, USRQUOTA), 0, nullptr) == 0 || errno == EBADF;
  return has;
}

// Returns the device of the open file's file system, from the kernel's list of mounts. Empty if there is none.
std::string DeviceOf(int fd) {
  struct stat stat;
  if (::fstat(fd, &stat) != 0) return {};
  const std::string number = std::to_string(major(stat.st_dev)) + ":" + std::to_string(minor(stat.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE ...
    std::istringstream words(line);
    std::string id, parent, device, word, type, source;
    words >> id >> parent >> device;
    if (device != number) continue;
    while (words >> word && word != "-") {
    }
    if (words >> type >> source && source.starts_with('/')) return source;
  }
  return {};
}

// Returns the errno, or 0.
int Call(int fd, int command, QuotaKind kind, uint32_t id, void* result) {
  const int whole = static_cast<int>(QCMD(command, TypeOf(kind)));
  if (HasQuotactlFd()) return ::syscall(SYS_quotactl_fd, fd, whole, id, result) == 0 ? 0 : errno;
  const std::string device = DeviceOf(fd);
  if (device.empty()) return ENOTBLK;
  return ::quotactl(whole, device.c_str(), static_cast<int>(id), static_cast<char*>(result)) == 0 ? 0 : errno;
}

// The file system keeps no quotas at all, or none of this kind now.
bool MeansNone(int error) {
  return error == ESRCH || error == ENOSYS || error == ENOTBLK || error == ENODEV || error == EOPNOTSUPP ||
         error == EINVAL;
}

struct State {
  bool keeps = false;
  bool enforces = false;
};
State StateOf(int fd, QuotaKind kind) {
  fs_quota_stat state{};
  if (Call(fd, Q_XGETQSTAT, kind, 0, &state) != 0) return {};
  const bool is_user = kind == QuotaKind::kUser;
  return {.keeps = (state.qs_flags & (is_user ? FS_QUOTA_UDQ_ACCT : FS_QUOTA_GDQ_ACCT)) != 0,
          .enforces = (state.qs_flags & (is_user ? FS_QUOTA_UDQ_ENFD : FS_QUOTA_GDQ_ENFD)) != 0};
}

}  // namespace

Result<std::optional<Quota>> ReadQuota(int fd, QuotaKind kind, uint32_t id) {
  if_dqblk block{};
  const int error = Call(fd, Q_GETQUOTA, kind, id, &block);
  if (MeansNone(error)) return std::nullopt;
  // XFS has no record of an id that owns nothing and has no limits.
  if (error != 0 && error != ENOENT) return std::unexpected(FromErrno(error));
  return Quota{.bytes = {.used = block.dqb_curspace,
                         .hard = block.dqb_bhardlimit * kBlock,
                         .soft = block.dqb_bsoftlimit * kBlock,
                         .grace_ends = static_cast<int64_t>(block.dqb_btime)},
               .files = {.used = block.dqb_curinodes,
                         .hard = block.dqb_ihardlimit,
                         .soft = block.dqb_isoftlimit,
                         .grace_ends = static_cast<int64_t>(block.dqb_itime)},
               .enforced = StateOf(fd, kind).enforces};
}

bool KeepsQuotas(int fd) { return StateOf(fd, QuotaKind::kUser).keeps || StateOf(fd, QuotaKind::kGroup).keeps; }

}  // namespace penstock::fs::posix
