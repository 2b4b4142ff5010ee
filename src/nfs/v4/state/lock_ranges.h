// Byte-range locks: ranges, and those that one owner holds on one file (RFC 8881 §9.1, §18.10).
#pragma once

#include <cstdint>
#include <optional>
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

// As POSIX has them: a lock replaces what its owner held of the range, whatever its kind; ranges that meet are one;
// unlocking may cut a range in two.
class LockRanges {
 public:
  void Lock(const LockRange& range, bool exclusive);
  void Unlock(const LockRange& range);

  // The first of them that somebody else's lock on `range` would conflict with.
  std::optional<LockedRange> FindConflict(const LockRange& range, bool exclusive) const;

  // How many more (or less) there would be in the end is bounded by two for each call.
  size_t size() const { return ranges_.size(); }
  bool empty() const { return ranges_.empty(); }
  const std::vector<LockedRange>& ranges() const { return ranges_; }

 private:
  // In their order, without overlaps, those that meet being of different kinds.
  std::vector<LockedRange> ranges_;
};

}  // namespace penstock::nfs::v4
