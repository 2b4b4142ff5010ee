// Attributes of open descriptors.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "fs/posix/change_counters.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Names of other file systems that a tree reaches without crossing a mount, as the subvolumes of btrfs. Any thread.
class OtherVolumes {
 public:
  // Returns Stat::device for the object of `fd`, whose st_dev differs from the root's.
  uint64_t NameOf(int fd, uint64_t st_dev, uint64_t root_fsid);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> names_;  // the key is st_dev
};

// The file system of the served tree.
struct Volume {
  std::shared_ptr<ChangeCounters> changes{};
  std::shared_ptr<OtherVolumes> others = std::make_shared<OtherVolumes>();
  uint64_t device = 0;      // the root directory's st_dev
  uint64_t superblock = 0;  // the same for all subvolumes of the file system, while this machine runs
  uint64_t fsid = 0;        // the fsid in attributes, which survives a restart: see FsidOf()
  bool in_memory = false;   // tmpfs or ramfs: no operation waits for a disk
  // An inode number and a time of birth name one object among those with the root's st_dev. Not so where copies of an
  // object have both, as in snapshots that share its st_dev, or where another machine tells the attributes.
  bool births_differ = false;
  bool local_locks = false;  // the kernel alone decides about locks: see KeepsLocksInMemory
  bool read_only = false;
};

struct Stat {
  Attributes attributes;
  // The file system within the volume: zero for the root's own, else a number that distinguishes its fsid. Device
  // numbers may change at a restart, but this number stays the same where the kernel provides one.
  uint64_t device = 0;
};

Result<Volume> VolumeOf(int fd, std::shared_ptr<ChangeCounters> changes);

// Fails with kStale if the object was removed from its last directory.
Result<Stat> StatOf(int fd, const Volume& volume);
// The same for objects without a name, whose nlink is zero.
Result<Stat> StatOfNameless(int fd, const Volume& volume);
// Looks at the object with this name in a directory (O_PATH suffices) without opening it. Fails with kNoEnt if the name
// does not exist. Returns nothing if the object must be opened to learn more: it may be the root of another mount, it
// lies on another volume, or the look-up failed. Waits for the disk if it must. Enters a file system that is mounted at
// the name, which may not answer: so the name must be "..", or not that of a directory.
std::optional<Result<Stat>> StatOfEntry(int directory, const char* name, const Volume& volume);

}  // namespace penstock::fs::posix
