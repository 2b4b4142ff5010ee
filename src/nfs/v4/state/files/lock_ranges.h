// Byte ranges, and the locked ranges that one owner holds on one file (RFC 8881 §9.1, §18.10).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// The octets from `first` to `last`, both included. A range without end has the largest number as its last octet.
struct LockRange {
  uint64_t first = 0;
  uint64_t last = 0;

  // Converts the arguments of LOCK, LOCKT and LOCKU. Returns nothing if the length is zero or the range ends beyond 64
  // bits (NFS4ERR_INVAL, RFC 8881 §18.10.3). A length of all ones means a range without end.
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

// The effect of one call on an owner's ranges: the ranges that were removed, and those that were added.
struct LockChange {
  std::vector<LockedRange> removed{};
  std::vector<LockedRange> added{};
};

// The ranges of one owner, with the rules of POSIX: a lock replaces all locks that the owner held in the range, of
// either kind; adjacent ranges of one kind become one range; unlocking may cut a range in two. A call takes O(log n),
// and O(log n) more for each range that it replaces.
class LockRanges {
 public:
  LockChange Lock(const LockRange& range, bool exclusive);
  LockChange Unlock(const LockRange& range);
  // Whether unlocking would cut a range in two.
  bool WouldCut(const LockRange& range) const;
  // If more than `most` ranges overlap `range`, returns the beginning of `range`, up to the end of the last of the
  // first `most` ranges. Requires that `most` is not zero.
  std::optional<LockRange> FirstPart(const LockRange& range, size_t most) const;

  // The number of ranges. Lock() adds two at most, and Unlock() one.
  size_t size() const { return ranges_.size(); }
  bool empty() const { return ranges_.empty(); }

  struct ByPlace {
    using is_transparent = void;
    bool operator()(const LockedRange& a, const LockedRange& b) const { return a.range.first < b.range.first; }
    bool operator()(uint64_t octet, const LockedRange& held) const { return octet < held.range.first; }
    bool operator()(const LockedRange& held, uint64_t octet) const { return held.range.first < octet; }
  };
  using Set = std::set<LockedRange, ByPlace>;
  // In order and without overlaps. Adjacent ranges are of different kinds.
  const Set& ranges() const { return ranges_; }

 private:
  // Returns the first range that ends at or after `octet`.
  Set::iterator Reaching(uint64_t octet) const;
  void Drop(Set::iterator at, LockChange& change);

  Set ranges_;
};

}  // namespace penstock::nfs::v4
