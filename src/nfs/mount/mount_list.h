// The list of mounts for MOUNT's DUMP (RFC 1813 §5.2.2). It is unreliable, because a client that vanishes leaves its
// entries. So only DUMP uses it, and its length is bounded.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::nfs::mount {

// Thread-safe.
class MountList {
 public:
  struct Entry {
    std::string host;
    std::string directory;
    bool operator==(const Entry&) const = default;
  };

  // Beyond `limit` entries, the list removes the oldest.
  explicit MountList(size_t limit = 1024) : limit_(limit) {}

  // Adds the pair of host and directory unless the list has it.
  void Add(std::string_view host, std::string_view directory);
  void Remove(std::string_view host, std::string_view directory);
  void RemoveAll(std::string_view host);
  std::vector<Entry> Entries() const;

 private:
  const size_t limit_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // oldest first; guarded by mutex_
};

}  // namespace penstock::nfs::mount
