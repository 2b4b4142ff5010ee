// Whether a file system is so full that it matters who writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "fs/posix/path.h"

namespace penstock::fs::posix {

// File systems keep some space for root. To write as the caller, who may not have it, takes longer than a small write does; so
// it is done only where what is left for everybody comes to an end. Any thread.
class SpaceWatch {
 public:
  // Less than this is little: more than what is written between two looks.
  static constexpr uint64_t kLittle = uint64_t{1} << 30;

  // `fd` is a file's on the file system. Asks at most ten times a second. Absent where impatient and it has to ask.
  std::optional<bool> IsLow(int fd, Patience patience);

 private:
  std::atomic<int64_t> next_look_ = 0;  // in milliseconds of the steady clock
  std::atomic<bool> low_ = true;
};

}  // namespace penstock::fs::posix
