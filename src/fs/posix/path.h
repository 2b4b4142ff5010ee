// Opening one component at a time, and reopening what is open.
#pragma once

#include <fcntl.h>

#include <array>
#include <optional>
#include <string>

#include "base/data.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Whether an operation may wait for a disk, or has to give up instead (its result is then absent).
enum class Patience { kNone, kMayBlock };

// The O_PATH descriptor of `name` (one component) in the directory `directory`: of a symbolic link itself, and never of
// anything on another mount, which is kAccess. Absent where impatient and the kernel has to ask the disk.
std::optional<Result<FileDescriptor>> OpenEntry(int directory, const std::string& name, Patience patience);

// The name of what `fd` has open, for calls that take no O_PATH descriptor. It is followed as a "magic link": it leads
// to the open object whatever has become of its path, and to a symbolic link itself.
class ProcPath {
 public:
  explicit ProcPath(int fd);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_;
};

// Opens the object of `fd` once more, with other flags.
Result<FileDescriptor> Reopen(int fd, int flags);

// Whether the directory `fd` is `root` or somewhere beneath it, now.
bool IsBeneath(int fd, int root);

}  // namespace penstock::fs::posix
