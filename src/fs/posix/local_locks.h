// Locks on the real file, for local programs (fcntl(2), "open file description locks").
#pragma once

#include <memory>
#include <utility>

#include "base/workers.h"
#include "fs/local_locks.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// Of one owner, who has an open file description of its own: so the kernel tells owners from each other, and closing it
// gives up what was left. They conflict with other programs' locks by fcntl() of both kinds, and not with those by flock().
//
// Locks are the kernel's own business, in memory, on the file systems for which these are made (see KeepsLocksInMemory).
// So nothing waits here.
class OfdLocks final : public LocalLocks {
 public:
  // `file` is nobody else's open file description, open for reading; open for writing, too, where it is to exclude readers. `pool`
  // closes it, and outlives this.
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

// A file description of its own for the locks of one owner; `exclusive` as in FileSystem::OpenLocks. Null where the server may not read
// the file, or there are too many such descriptions. May block.
Result<SharedFile> OpenForLocks(const Object& object, bool exclusive, OpenObjects& objects);

// Not those of a network or of FUSE, where another machine or another program is asked for each lock.
bool KeepsLocksInMemory(int fd);

}  // namespace penstock::fs::posix
