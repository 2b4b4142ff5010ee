// Byte-range locks that exclude the programs of the server's own machine, as the locks of those programs exclude
// clients. Locks between clients are decided elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace penstock::fs {

// The locks of one owner on one file. One thread at a time calls Lock() and Unlock(); Test() may be called at any time.
// No method waits, but each takes time in proportion to the locks of the file, of all owners.
class LocalLocks {
 public:
  // A range from `first` to `last`, both included. With UINT64_MAX it has no end.
  struct Conflict {
    uint64_t first = 0;
    uint64_t last = 0;
    bool exclusive = false;
    uint64_t process = 0;  // the process that holds the lock; zero if the system does not tell
  };

  // Gives up all locks of the owner.
  virtual ~LocalLocks() = default;

  // Whether an exclusive lock also keeps local programs from reading. If the server may not write to the file, an
  // exclusive lock only keeps them from writing.
  virtual bool CanExclude() const = 0;

  // Replaces the owner's locks in the range. Returns the conflicting lock if there is one; then nothing has changed.
  virtual std::optional<Conflict> Lock(uint64_t first, uint64_t last, bool exclusive) = 0;
  virtual void Unlock(uint64_t first, uint64_t last) = 0;
  // Returns the lock that such a lock would conflict with.
  virtual std::optional<Conflict> Test(uint64_t first, uint64_t last, bool exclusive) const = 0;
};

}  // namespace penstock::fs
