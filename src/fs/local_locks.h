// Byte-range locks that the programs of the server's own machine see, and that theirs are in the way of. Who may lock
// what among the clients is decided elsewhere: this is for the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace penstock::fs {

// The locks of one owner on one file. One thread at a time; nothing waits, so it may be called with a lock held.
class LocalLocks {
 public:
  // A range from `first` to `last`, both included; UINT64_MAX is without end.
  struct Conflict {
    uint64_t first = 0;
    uint64_t last = 0;
    bool exclusive = false;
    uint64_t process = 0;  // whose lock it is; zero where the system does not tell
  };

  // Gives up all of them.
  virtual ~LocalLocks() = default;

  // Whether local programs are kept from reading what is locked exclusively, too. Where the server may not write to the file they are kept
  // from writing alone.
  virtual bool CanExclude() const = 0;

  // Replaces what the owner has of the range. What is in the way; nothing has changed then.
  virtual std::optional<Conflict> Lock(uint64_t first, uint64_t last, bool exclusive) = 0;
  virtual void Unlock(uint64_t first, uint64_t last) = 0;
  // What would be in the way of such a lock.
  virtual std::optional<Conflict> Test(uint64_t first, uint64_t last, bool exclusive) const = 0;
};

}  // namespace penstock::fs
