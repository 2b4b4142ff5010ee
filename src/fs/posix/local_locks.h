// Byte-range locks that the kernel keeps on the file for local programs (fcntl(2), "open file description locks").
#pragma once

#include <memory>
#include <utility>

#include "base/workers.h"
#include "fs/local_locks.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// The locks of one owner, which has its own open file description. So the kernel distinguishes owners, and closing
// the description gives up all their locks. They conflict with fcntl() locks of other programs, of both kinds, but
// not with flock() locks.
//
// On file systems for which instances are made (see KeepsLocksInMemory), the kernel keeps locks in memory. So no
// method waits.
class OfdLocks final : public LocalLocks {
 public:
  // `file` is an open file description for this owner only. It is open for reading, and also for writing if exclusive
  // locks are to exclude readers. `pool` closes it, and outlives the instance.
  OfdLocks(SharedFile file, Workers& pool);
  ~OfdLocks() override;

  bool CanExclude() const override { return can_exclude_; }

  std::optional<Conflict> Lock(uint64_t first, uint64_t last, bool exclusive) override;
  void Unlock(uint64_t first, uint64_t last) override;
  std::optional<Conflict> Test(uint64_t first, uint64_t last, bool exclusive) const override;

 private:
  SharedFile file_;
  const bool can_exclude_;
  Workers& pool_;
};

// Opens a file description for the locks of one owner; `exclusive` as in FileSystem::OpenLocks. Returns null if the
// server may not read the file, or if too many descriptions are open for locks. May block.
Result<SharedFile> OpenForLocks(const Object& object, bool exclusive, OpenObjects& objects);

// Returns false for network file systems and FUSE, where another machine or program decides about each lock.
bool KeepsLocksInMemory(int fd);

}  // namespace penstock::fs::posix
