#include "nfs/v4/state/files/lock_ranges.h"

#include <algorithm>
#include <iterator>

namespace penstock::nfs::v4 {

LockRanges::Set::iterator LockRanges::Reaching(uint64_t octet) const {
  const auto after = ranges_.upper_bound(octet);
  if (after == ranges_.begin()) return after;
  const auto before = std::prev(after);
  return before->range.last >= octet ? before : after;
}

// Removes a range and notes it in `change`. A range that the same call has added only leaves the list of added ranges.
void LockRanges::Drop(Set::iterator at, LockChange& change) {
  const auto known = std::ranges::find(change.added, *at);
  if (known == change.added.end()) {
    change.removed.push_back(*at);
  } else {
    change.added.erase(known);
  }
  ranges_.erase(at);
}

LockChange LockRanges::Unlock(const LockRange& range) {
  LockChange change;
  for (auto at = Reaching(range.first); at != ranges_.end() && at->range.first <= range.last;) {
    change.removed.push_back(*at);
    at = ranges_.erase(at);
  }
  if (change.removed.empty()) return change;

  // The parts of the first and last range that lie outside of `range` stay locked.
  const LockedRange left = change.removed.front(), right = change.removed.back();
  if (left.range.first < range.first) change.added.push_back({{left.range.first, range.first - 1}, left.exclusive});
  if (right.range.last > range.last) change.added.push_back({{range.last + 1, right.range.last}, right.exclusive});
  ranges_.insert(change.added.begin(), change.added.end());
  return change;
}

LockChange LockRanges::Lock(const LockRange& range, bool exclusive) {
  LockChange change = Unlock(range);
  LockedRange added{range, exclusive};
  if (range.last != UINT64_MAX) {
    const auto next = ranges_.find(range.last + 1);
    if (next != ranges_.end() && next->exclusive == exclusive) {
      added.range.last = next->range.last;
      Drop(next, change);
    }
  }
  const auto after = ranges_.lower_bound(range.first);
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->exclusive == exclusive && before->range.last + 1 == range.first) {
      added.range.first = before->range.first;
      Drop(before, change);
    }
  }
  ranges_.insert(added);
  change.added.push_back(added);
  return change;
}

bool LockRanges::WouldCut(const LockRange& range) const {
  const auto at = Reaching(range.first);
  return at != ranges_.end() && at->range.first < range.first && at->range.last > range.last;
}

std::optional<LockRange> LockRanges::FirstPart(const LockRange& range, size_t most) const {
  uint64_t last = 0;
  for (auto at = Reaching(range.first); at != ranges_.end() && at->range.first <= range.last; ++at) {
    if (most-- == 0) return LockRange{range.first, last};
    last = at->range.last;
  }
  return std::nullopt;
}

}  // namespace penstock::nfs::v4
