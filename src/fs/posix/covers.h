// The directories below an export's root that other exports serve, each on its own terms: nobody comes to them, or to
// what is below them, through this export. They are like mount points: the name is there, and leads nowhere.
//
// A directory is known by its inode, wherever it is moved, and by the place where it was when the server started, so
// that another directory that is put there is covered as well. Files are not asked for their place: nobody gets a handle
// of one that lies in a covered directory, and a handle from a time when that was not covered says so (see
// KernelHandles). A file with another name outside, or that had one when its handle was given, is reached by that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/posix/stat.h"

namespace penstock::fs::posix {

class Covers {
 public:
  Covers() = default;
  // Those of `others` that lie below `root`, also where one of the two is a bind mount. What cannot be opened is left
  // out: an export of it fails.
  Covers(int root, const Volume& volume, std::span<const std::filesystem::path> others);

  bool empty() const { return covered_.empty(); }
  // Whether what was found in `directory` as `name`, if there is anything, is covered.
  bool Has(const Stat& found) const;
  bool HasPlace(int directory, std::string_view name) const;
  // Whether the directory is one of them, or below one. Walks up; the error is that of a step which may go well later.
  Result<bool> Hold(int directory, int root) const;
  // Other octets for every other set of directories. None for none.
  std::vector<std::byte> identity() const;

 private:
  struct Covered {
    uint64_t device = 0, inode = 0;
    uint64_t parent_device = 0, parent_inode = 0;
    std::string name;
  };

  Volume volume_;
  std::vector<Covered> covered_;  // by device and inode
};

}  // namespace penstock::fs::posix
