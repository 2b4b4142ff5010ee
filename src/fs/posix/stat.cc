#include "fs/posix/stat.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "fs/errno.h"
#include "fs/file_mode.h"
#include "fs/posix/fsid.h"
#include "fs/posix/local_locks.h"

namespace penstock::fs::posix {
namespace {

Timestamp TimeOf(const statx_timestamp& time) { return {time.tv_sec, time.tv_nsec}; }

constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME;

uint64_t DeviceOf(const struct statx& stat) { return makedev(stat.stx_dev_major, stat.stx_dev_minor); }

// See Volume. The snapshots of btrfs have an st_dev each.
bool DoBirthsDiffer(const struct statfs& fs) {
  constexpr uint32_t kKnown[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC};
  return std::ranges::find(kKnown, static_cast<uint32_t>(fs.f_type)) != std::end(kKnown);
}

// `device` is Stat::device.
Stat ToStat(const struct statx& stat, uint64_t device, const Volume& volume) {
  Stat result;
  result.device = device;
  Attributes& a = result.attributes;
  a.type = TypeOfMode(stat.stx_mode);
  a.mode = stat.stx_mode & 07777;
  a.nlink = stat.stx_nlink;
  a.uid = stat.stx_uid;
  a.gid = stat.stx_gid;
  a.size = stat.stx_size;
  a.used = stat.stx_blocks * 512;
  a.rdev = {stat.stx_rdev_major, stat.stx_rdev_minor};
  a.fsid = volume.fsid ^ result.device;
  a.fileid = stat.stx_ino;
  a.atime = TimeOf(stat.stx_atime);
  a.mtime = TimeOf(stat.stx_mtime);
  a.ctime = TimeOf(stat.stx_ctime);
  if ((stat.stx_mask & STATX_BTIME) != 0) a.born = TimeOf(stat.stx_btime);
  a.change = volume.changes->Look({a.fsid, a.fileid}, a.ctime);
  return result;
}

}  // namespace

Result<Volume> VolumeOf(int fd, std::shared_ptr<ChangeCounters> changes) {
  struct statx stat;
  struct statfs fs;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stat) != 0 || ::fstatfs(fd, &fs) != 0) return LastError();
  Volume volume;
  volume.changes = std::move(changes);
  volume.device = DeviceOf(stat);
  volume.superblock = SuperblockOf(fd).value_or(volume.device);
  FileSystemFacts facts{.kernel_fsid = KernelFsidOf(fs), .device = {stat.stx_dev_major, stat.stx_dev_minor}};
  facts.uuid = FindUuid(fd, facts.device);
  volume.fsid = FsidOf(facts);
  volume.local_locks = KeepsLocksInMemory(fd);
  volume.in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
  volume.births_differ = DoBirthsDiffer(fs);
  volume.read_only = (fs.f_flags & ST_RDONLY) != 0;
  return volume;
}

uint64_t OtherVolumes::NameOf(int fd, uint64_t st_dev, uint64_t root_fsid) {
  const std::lock_guard lock(mutex_);
  if (const auto known = names_.find(st_dev); known != names_.end()) return known->second;
  struct statfs fs;
  if (::fstatfs(fd, &fs) != 0) return st_dev;
  const uint64_t fsid = KernelFsidOf(fs);
  const Device device{.major = major(st_dev), .minor = minor(st_dev)};
  // Otherwise the kernel sees one file system although its files have different device numbers (overlayfs).
  const bool tells = fsid != 0 && fsid != root_fsid && !IsDeviceNumber(fsid, device);
  return names_[st_dev] = tells ? fsid ^ root_fsid : st_dev;
}

Result<Stat> StatOf(int fd, const Volume& volume) {
  Result<Stat> stat = StatOfNameless(fd, volume);
  if (stat && stat->attributes.nlink == 0) return std::unexpected(Error::kStale);
  return stat;
}

Result<Stat> StatOfNameless(int fd, const Volume& volume) {
  struct statx stat;
  if (::statx(fd, "", AT_EMPTY_PATH, kWanted, &stat) != 0) return LastError();
  const uint64_t device = DeviceOf(stat);
  return ToStat(stat, device == volume.device ? 0 : volume.others->NameOf(fd, device, volume.fsid), volume);
}

std::optional<Result<Stat>> StatOfEntry(int directory, const char* name, const Volume& volume) {
  struct statx stat;
  // A file may be mounted here, too. Without AT_STATX_DONT_SYNC, its file system might ask another machine.
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(directory, name, kFlags, kWanted, &stat) != 0) {
    if (errno == ENOENT) return std::unexpected(Error::kNoEnt);
    return std::nullopt;
  }
  const bool tells_mounts = (stat.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  if (!tells_mounts || (stat.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return std::nullopt;
  if (stat.stx_nlink == 0) return std::unexpected(Error::kNoEnt);  // removed during the call
  if (DeviceOf(stat) != volume.device) return std::nullopt;
  return ToStat(stat, 0, volume);
}

}  // namespace penstock::fs::posix
