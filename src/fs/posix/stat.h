// Attributes of what a descriptor has open.
#pragma once

#include <cstdint>
#include <memory>

#include "fs/posix/change_counters.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// The file system that the served tree is on.
struct Volume {
  std::shared_ptr<ChangeCounters> changes{};
  uint64_t device = 0;     // the root directory's st_dev
  uint64_t fsid = 0;       // what we call it: the same after a restart where the kernel can tell
  bool in_memory = false;  // tmpfs and ramfs: nothing there waits for a disk
  bool read_only = false;
};

struct Stat {
  Attributes attributes;
  uint64_t device = 0;  // zero on the volume's own device, which may have another number after a restart
};

Result<Volume> VolumeOf(int fd, std::shared_ptr<ChangeCounters> changes);

// kStale where the object has been removed from its last directory.
Result<Stat> StatOf(int fd, const Volume& volume);
// Of an object without a name too: its nlink is then zero.
Result<Stat> StatOfNameless(int fd, const Volume& volume);

}  // namespace penstock::fs::posix
