// The directories below an export's root that other exports serve, each with its own options. Clients cannot reach
// them, or objects below them, through this export. They behave as mount points do: the name exists, but cannot be
// entered.
//
// A directory is recognized by its inode, wherever it is moved, and by the place that it had when the server started,
// so that another directory put there is covered as well. Files are not checked for their place: a client cannot get
// a handle of a file in a covered directory, and an older handle contains a digest of the directories that were
// covered then (see KernelHandles). A file that has, or had when its handle was given, a name outside the covered
// directories is reached by that name.
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
  // Covers those of `others` that lie below `root`, also if one of the two is a bind mount. Directories that cannot
  // be opened are left out, because their export fails. The same for `hidden`, which nobody serves: they may be
  // missing.
  Covers(int root, const Volume& volume, std::span<const std::filesystem::path> others,
         std::span<const std::filesystem::path> hidden = {});

  bool empty() const { return covered_.empty(); }
  // Whether the object that was found in `directory` as `name` is covered. HasPlace() also works if no object was
  // found.
  bool Has(const Stat& found) const;
  bool HasPlace(int directory, std::string_view name) const;
  // Whether the directory is covered or lies below a covered one. Walks up to the root; the error is that of a step,
  // and may be transient.
  Result<bool> Hold(int directory, int root) const;
  // Octets that differ for each set of directories that others serve. Empty if there is none. Two kinds of directories
  // do not matter, because they come and go, and handles of what is in them give access to nothing that others protect:
  // hidden ones, and those of other file systems, which are mounted below the root.
  std::vector<std::byte> identity() const;
  // Whether both cover the same places.
  bool operator==(const Covers& other) const { return covered_ == other.covered_; }

 private:
  struct Covered {
    uint64_t device = 0, inode = 0;
    uint64_t parent_device = 0, parent_inode = 0;
    std::string name;
    bool in_identity = true;
    bool operator==(const Covered&) const = default;
  };

  void Add(int root, const std::filesystem::path& directory, bool is_served);

  Volume volume_;
  std::vector<Covered> covered_;  // by device and inode
};

}  // namespace penstock::fs::posix
