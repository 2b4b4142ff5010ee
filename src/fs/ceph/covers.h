// The directories below an export's root that other exports serve, each with its own options. Clients cannot reach
// them, or objects below them, through this export, and neither through its snapshots. They behave as mount points do:
// the name exists, but cannot be entered, and the directories that lead to it cannot be renamed.
//
// A directory is recognized by its inode, wherever it is moved, and by its place, so that another directory put there
// is covered as well. Files are not checked for their place: a client cannot get a handle of a file in a covered
// directory, and an older handle contains a digest of the paths that were covered then (Handles). A file that has, or
// had when its handle was given, a name outside the covered directories is reached by that name. A directory that other
// clients of the cluster move into a covered one stays reachable until libcephfs learns of its new parent.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/ceph/client.h"

namespace penstock::fs::ceph {

class Covers {
 public:
  // Covers each of the paths, which are relative to `root`. Of one that does not exist, the first component that does
  // not is covered. Fails if the cluster does not tell. May block.
  static SetupResult<Covers> Make(Client& client, Inode* root, std::span<const std::string> paths);
  Covers() = default;  // covers nothing

  bool empty() const { return covered_.empty(); }
  // In every snapshot.
  bool Has(const InodeNumber& object) const;
  bool HasPlace(const InodeNumber& directory, std::string_view name) const;
  // Whether a covered place is below this directory.
  bool IsAbove(const InodeNumber& directory) const;
  // Returns -ESTALE if the object is at a covered place in `directory`, which has this number: the inode of a directory
  // that was put there later is not known. Returns zero or another negative errno otherwise. May block.
  int CheckPlaces(Client& client, Inode* directory, const InodeNumber& number, const InodeNumber& object) const;
  // Whether both cover the same directories and places.
  bool operator==(const Covers& other) const { return covered_ == other.covered_; }

 private:
  struct Covered {
    uint64_t parent = 0;
    std::string name;
    std::optional<uint64_t> ino;  // if the directory exists
    std::vector<uint64_t> above;  // from the root to the parent
    bool operator==(const Covered&) const = default;

    bool IsIn(const InodeNumber& directory) const {
      // The names in a directory ".snap" are those of snapshots.
      return parent == directory.ino && directory.snapshot != kSnapshotDirectory;
    }
  };

  // Returns a negative errno.
  static int Find(Client& client, Inode* root, const std::string& path, Covered& covered);

  std::vector<Covered> covered_;
};

}  // namespace penstock::fs::ceph
