// Opens paths one component at a time, and opens descriptors again.
#pragma once

#include <fcntl.h>

#include <array>
#include <optional>
#include <string>

#include "base/data.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Whether an operation may wait for a disk. An impatient operation returns no value instead of waiting.
enum class Patience { kNone, kMayBlock };

// Opens `name` (one component) in `directory` with O_PATH. A symbolic link is opened itself. An object on another
// mount is kAccess. If impatient, returns no value when the kernel would have to read from the disk.
std::optional<Result<FileDescriptor>> OpenEntry(int directory, const std::string& name, Patience patience);

// The name of an open descriptor in /proc, for system calls that do not accept O_PATH descriptors. The kernel follows
// it as a "magic link": it leads to the open object even if its path has changed, and to a symbolic link itself.
class ProcPath {
 public:
  explicit ProcPath(int fd);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_;
};

// Opens the object of `fd` again, with other flags.
Result<FileDescriptor> Reopen(int fd, int flags);

// The path of an open object now, as the process sees it. Returns nothing if it has none.
std::optional<std::string> PathOf(int fd);

// Whether the directory `fd` is `root` or below it at this time.
bool IsBeneath(int fd, int root);

}  // namespace penstock::fs::posix
