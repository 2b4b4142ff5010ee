// Byte-range locks: ranges, and those that one owner holds on one file (RFC 8881 §9.1, §18.10).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// The octets from `first` to `last`, both included. A range without end reaches to the largest number.
struct LockRange {
  uint64_t first = 0;
  uint64_t last = 0;

  // Of LOCK, LOCKT and LOCKU: empty where the length is zero, or the range ends beyond what 64 bits hold (NFS4ERR_INVAL,
  // RFC 8881 §18.10.3). A length of all ones is a range without end.
  static std::optional<LockRange> From(uint64_t offset, uint64_t length) {
    if (length == 0) return std::nullopt;
    if (length == UINT64_MAX) return LockRange{offset, UINT64_MAX};
    if (length > UINT64_MAX - offset) return std::nullopt;
    return LockRange{offset, offset + length - 1};
  }

  uint64_t length() const { return last == UINT64_MAX ? UINT64_MAX : last - first + 1; }
  bool Overlaps(const LockRange& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const LockRange&) const = default;
};

struct LockedRange {
  LockRange range;
  bool exclusive = false;  // a write lock
  bool operator==(const LockedRange&) const = default;
};

inline bool IsExclusive(nfs4::nfs_lock_type4 type) {
  return type == nfs4::nfs_lock_type4::WRITE_LT || type == nfs4::nfs_lock_type4::WRITEW_LT;
}
inline bool IsBlocking(nfs4::nfs_lock_type4 type) {
  return type == nfs4::nfs_lock_type4::READW_LT || type == nfs4::nfs_lock_type4::WRITEW_LT;
}

// What one call has made of an owner's ranges: those that are no more, and those that are new.
struct LockChange {
  std::vector<LockedRange> removed{};
  std::vector<LockedRange> added{};
};

// The ranges of one owner, as POSIX has them: a lock replaces what its owner held of the range, whatever its kind; ranges that meet are
// one; unlocking may cut a range in two. A call takes O(log n), and as much again for each range that it replaces.
class LockRanges {
 public:
  LockChange Lock(const LockRange& range, bool exclusive);
  LockChange Unlock(const LockRange& range);
  // Unlocking would cut a range in two.
  bool WouldCut(const LockRange& range) const;

  // How many more there would be in the end is bounded by two for each Lock(), and by one for each Unlock().
  size_t size() const { return ranges_.size(); }
  bool empty() const { return ranges_.empty(); }

  struct ByPlace {
    using is_transparent = void;
    bool operator()(const LockedRange& a, const LockedRange& b) const { return a.range.first < b.range.first; }
    bool operator()(uint64_t octet, const LockedRange& held) const { return octet < held.range.first; }
    bool operator()(const LockedRange& held, uint64_t octet) const { return held.range.first < octet; }
  };
  using Set = std::set<LockedRange, ByPlace>;
  // In their order, without overlaps, those that meet being of different kinds.
  const Set& ranges() const { return ranges_; }

 private:
  // The first range that ends at or after `octet`.
  Set::iterator Reaching(uint64_t octet) const;
  void Drop(Set::iterator at, LockChange& change);

  Set ranges_;
};

}  // namespace penstock::nfs::v4
