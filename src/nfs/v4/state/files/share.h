// Share reservations: the access that an open has, and the access that it denies to others (RFC 8881 §9.7, RFC 7530
// §9.9).
#pragma once

#include <bit>
#include <cstdint>

#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// Access and denial are sets of the bits READ and WRITE. OPEN4_SHARE_ACCESS_BOTH and OPEN4_SHARE_DENY_BOTH have both
// bits.
struct Share {
  uint32_t access = 0;
  uint32_t deny = 0;

  bool reads() const { return access & nfs4::OPEN4_SHARE_ACCESS_READ; }
  bool writes() const { return access & nfs4::OPEN4_SHARE_ACCESS_WRITE; }
  // RFC 8881 §18.10.3: a write lock needs an open for writing, a read lock an open for reading.
  bool AllowsLock(bool exclusive) const { return exclusive ? writes() : reads(); }
  bool operator==(const Share&) const = default;
};

// Whether either share denies the access of the other (RFC 8881 §9.7).
inline bool Conflict(const Share& a, const Share& b) { return (a.access & b.deny) || (a.deny & b.access); }

// The shares of all OPENs that one open stands for. OPEN_DOWNGRADE may only go back to the union of some of them (RFC
// 8881 §18.18.3). Access and denial are checked separately.
class ShareHistory {
 public:
  void Add(const Share& share) {
    accesses_ |= 1u << share.access;
    denials_ |= 1u << share.deny;
  }

  Share Union() const { return {UnionWithin(accesses_, 3), UnionWithin(denials_, 3)}; }

  // Returns false and changes nothing if `share` is not the union of any set of the OPENs.
  bool Downgrade(const Share& share) {
    if (UnionWithin(accesses_, share.access) != share.access) return false;
    if (UnionWithin(denials_, share.deny) != share.deny) return false;
    accesses_ &= SubsetsOf(share.access);
    denials_ &= SubsetsOf(share.deny);
    return true;
  }

 private:
  // Returns the subsets of `limit`, as a bit for each of the four sets of READ and WRITE.
  static uint32_t SubsetsOf(uint32_t limit) {
    uint32_t subsets = 0;
    for (uint32_t set = 0; set < 4; ++set) {
      if (!(set & ~limit)) subsets |= 1u << set;
    }
    return subsets;
  }
  // Returns the union of the members of `sets` that are subsets of `limit`.
  static uint32_t UnionWithin(uint32_t sets, uint32_t limit) {
    uint32_t all = 0;
    for (uint32_t left = sets & SubsetsOf(limit); left != 0; left &= left - 1) {
      all |= static_cast<uint32_t>(std::countr_zero(left));
    }
    return all;
  }

  uint32_t accesses_ = 0;  // a bit for each set that was opened
  uint32_t denials_ = 0;
};

}  // namespace penstock::nfs::v4
