// The directories below an export's root that other exports serve, each with its own options. Clients cannot reach
// them, or objects below them, through this export, and neither through its snapshots. They behave as mount points do:
// the name exists, but cannot be entered.
//
// A directory is recognized by its inode, wherever it is moved, and by the place that it had when the export was
// opened, so that another directory put there is covered as well. Files are not checked for their place: a client
// cannot get a handle of a file in a covered directory, and an older handle contains a digest of the directories that
// were covered then (Handles). A file that has, or had when its handle was given, a name outside the covered
// directories is reached by that name.
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
  // Covers each of the paths, which are relative to `root`. One whose parent does not exist is left out. Fails if the
  // cluster does not tell. May block.
  static SetupResult<Covers> Make(Client& client, Inode* root, std::span<const std::string> paths);
  Covers() = default;  // covers nothing

  bool empty() const { return covered_.empty(); }
  // In every snapshot.
  bool Has(const InodeNumber& object) const;
  bool HasPlace(const InodeNumber& directory, std::string_view name) const;
  // Octets that differ for each set of directories; empty if there is none.
  std::vector<std::byte> identity() const;

 private:
  struct Covered {
    uint64_t parent = 0;
    std::string name;
    std::optional<uint64_t> ino;  // if the directory exists
  };

  // Returns a negative errno.
  static int Find(Client& client, Inode* root, const std::string& path, Covered& covered);

  std::vector<Covered> covered_;
};

}  // namespace penstock::fs::ceph
