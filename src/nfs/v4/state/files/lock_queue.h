// The lock-owners that wait for byte-range locks on one file, in the order of their arrival (RFC 8881 §9.6). The queue
// sends nothing: waiting clients ask again. Meanwhile, no other owner gets a free lock that conflicts with a waiter.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/timer.h"
#include "nfs/v4/state/files/lock_ranges.h"
#include "nfs/v4/state/ids.h"

namespace penstock::nfs::v4 {

struct LockWaiter {
  ClientId client;
  std::string owner;
  LockRange range;
  bool exclusive = false;
  bool can_be_told = false;  // by CB_NOTIFY_LOCK
  TimePoint until;           // a waiter that has not asked again by then is forgotten
  FileHandle handle{};       // the handle that the client knows the file by

  bool IsOf(ClientId of, std::string_view name) const { return client == of && owner == name; }
  bool ConflictsWith(const LockRange& other, bool other_exclusive) const {
    return (exclusive || other_exclusive) && range.Overlaps(other);
  }
};

class LockQueue {
 public:
  static constexpr size_t kMaxWaiters = 64;

  const std::vector<LockWaiter>& waiters() const { return waiters_; }
  std::vector<LockWaiter>& waiters() { return waiters_; }
  bool empty() const { return waiters_.empty(); }

  bool Has(ClientId client) const {
    return std::ranges::any_of(waiters_, [&](const LockWaiter& one) { return one.client == client; });
  }

  // Adds a waiter. A waiter that asks again keeps its place. If the queue is full, the last waiter of the client with
  // the most waiters gives its place to one of a client with fewer. A waiter without a place must ask again by itself.
  void Add(const LockWaiter& waiter) {
    const auto known = std::ranges::find_if(waiters_, [&](const LockWaiter& one) {
      return one.IsOf(waiter.client, waiter.owner) && one.range == waiter.range;
    });
    if (known != waiters_.end()) {
      *known = waiter;
    } else if (waiters_.size() < kMaxWaiters || MakePlace(waiter.client)) {
      waiters_.push_back(waiter);
    }
  }

  // Removes a waiter that has got its lock, or does not want it any more.
  void Remove(ClientId client, std::string_view owner, const LockRange& range) {
    std::erase_if(waiters_,
                  [&](const LockWaiter& one) { return one.IsOf(client, owner) && one.range.Overlaps(range); });
  }
  void Remove(ClientId client) {
    std::erase_if(waiters_, [&](const LockWaiter& one) { return one.client == client; });
  }
  void RemoveExpired(TimePoint now) {
    std::erase_if(waiters_, [&](const LockWaiter& one) { return one.until <= now; });
  }

 private:
  size_t CountOf(ClientId client) const {
    const auto is_of = [&](const LockWaiter& one) { return one.client == client; };
    return static_cast<size_t>(std::ranges::count_if(waiters_, is_of));
  }
  // Returns false if no other client has so many waiters that it must give up one for this client.
  bool MakePlace(ClientId client) {
    const auto count = [&](const LockWaiter& one) { return CountOf(one.client); };
    const ClientId most = std::ranges::max_element(waiters_, {}, count)->client;
    if (CountOf(most) <= CountOf(client) + 1) return false;
    const auto is_of = [&](const LockWaiter& one) { return one.client == most; };
    waiters_.erase(std::prev(std::find_if(waiters_.rbegin(), waiters_.rend(), is_of).base()));
    return true;
  }

  std::vector<LockWaiter> waiters_;
};

}  // namespace penstock::nfs::v4
