// Who has mounted what, as MOUNT's DUMP tells it (RFC 1813 §5.2.2). Hearsay: clients that vanish leave their entries
// behind, so that nothing but DUMP may depend on it, and its length is bounded.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::nfs::mount {

// Any thread.
class MountList {
 public:
  struct Entry {
    std::string host;
    std::string directory;
    bool operator==(const Entry&) const = default;
  };

  // Beyond `limit` entries the oldest is forgotten.
  explicit MountList(size_t limit = 1024) : limit_(limit) {}

  // Once for each pair, however often it is mounted.
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
