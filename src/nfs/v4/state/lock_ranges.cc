#include "nfs/v4/state/lock_ranges.h"

#include <algorithm>

namespace penstock::nfs::v4 {
namespace {

// The first range that ends at or after `octet`.
auto Reaching(auto& ranges, uint64_t octet) {
  return std::ranges::lower_bound(ranges, octet, {}, [](const LockedRange& held) { return held.range.last; });
}

}  // namespace

void LockRanges::Unlock(const LockRange& range) {
  auto begin = Reaching(ranges_, range.first);
  if (begin == ranges_.end() || begin->range.first > range.last) return;

  // What sticks out on either side stays.
  auto end = std::ranges::upper_bound(begin, ranges_.end(), range.last, {},
                                      [](const LockedRange& held) { return held.range.first; });
  const LockedRange left = *begin;
  const LockedRange right = *(end - 1);
  auto at = ranges_.erase(begin, end);
  if (right.range.last > range.last) {
    at = ranges_.insert(at, {{range.last + 1, right.range.last}, right.exclusive});
  }
  if (left.range.first < range.first) ranges_.insert(at, {{left.range.first, range.first - 1}, left.exclusive});
}

void LockRanges::Lock(const LockRange& range, bool exclusive) {
  Unlock(range);
  LockedRange added{range, exclusive};
  auto at = Reaching(ranges_, range.first);
  if (at != ranges_.end() && range.last != UINT64_MAX && at->exclusive == exclusive &&
      at->range.first == range.last + 1) {
    added.range.last = at->range.last;
    at = ranges_.erase(at);
  }
  if (at != ranges_.begin()) {
    const auto before = at - 1;
    if (before->exclusive == exclusive && before->range.last + 1 == range.first) {
      before->range.last = added.range.last;
      return;
    }
  }
  ranges_.insert(at, added);
}

std::optional<LockedRange> LockRanges::FindConflict(const LockRange& range, bool exclusive) const {
  for (auto at = Reaching(ranges_, range.first); at != ranges_.end() && at->range.first <= range.last; ++at) {
    if (exclusive || at->exclusive) return *at;
  }
  return std::nullopt;
}

}  // namespace penstock::nfs::v4
