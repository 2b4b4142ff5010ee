// Attributes of what a descriptor has open.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fs/posix/change_counters.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Names of the other file systems that a tree reaches without crossing a mount: a btrfs file system's subvolumes. Any thread.
class OtherVolumes {
 public:
  // What Stat::device is of what `fd` has open, whose st_dev is not the root's.
  uint64_t NameOf(int fd, uint64_t st_dev, uint64_t root_fsid);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> names_;  // by st_dev
};

// The file system that the served tree is on.
struct Volume {
  std::shared_ptr<ChangeCounters> changes{};
  std::shared_ptr<OtherVolumes> others = std::make_shared<OtherVolumes>();
  uint64_t device = 0;       // the root directory's st_dev
  uint64_t superblock = 0;   // the same for all of the file system's subvolumes, while this machine runs
  uint64_t fsid = 0;         // what we call it: the same after a restart, see FsidOf()
  bool in_memory = false;    // tmpfs and ramfs: nothing there waits for a disk
  bool local_locks = false;  // locks are taken without asking anybody else: see KeepsLocksInMemory
  bool read_only = false;
};

struct Stat {
  Attributes attributes;
  // Which of the volume's file systems it is on: zero for the root's own, else what makes the fsid another one. Device numbers
  // may be others after a restart, and this is the same where the kernel can tell.
  uint64_t device = 0;
};

Result<Volume> VolumeOf(int fd, std::shared_ptr<ChangeCounters> changes);

// kStale where the object has been removed from its last directory.
Result<Stat> StatOf(int fd, const Volume& volume);
// Of an object without a name too: its nlink is then zero.
Result<Stat> StatOfNameless(int fd, const Volume& volume);

}  // namespace penstock::fs::posix
