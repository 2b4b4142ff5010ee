// Detects when a file system is so full that writes must be made with the caller's rights.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "fs/posix/path.h"

namespace penstock::fs::posix {

// File systems reserve some space for root. A small write as the caller, who may not use that space, takes longer
// than one as root; so it is only done when the space for other users runs out. Any thread.
class SpaceWatch {
 public:
  // Less free space than this is low. It is more than can be written between two checks.
  static constexpr uint64_t kLittle = uint64_t{1} << 30;

  // `fd` is a file on the file system. Checks at most ten times a second. If impatient, returns no value when a check
  // is due.
  std::optional<bool> IsLow(int fd, Patience patience);

 private:
  std::atomic<int64_t> next_look_ = 0;  // in milliseconds of the steady clock
  std::atomic<bool> low_ = true;
};

}  // namespace penstock::fs::posix
