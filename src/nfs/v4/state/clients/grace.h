// The grace period after a restart, in which clients reclaim what they held and nobody gets anything new (RFC 8881
// §8.4.2.1).
//
//   off                      nobody had anything, or the period is over
//   on, not due              some who may reclaim have not said that they are done, and there is still time
//   on, due                  the store is to forget those who did not come (RecoveryStore::EndGrace); then End()
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/timer.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

class Grace {
 public:
  // Off.
  Grace() = default;
  // For a server that starts: at least as long as the lease that clients were told before (RFC 8881 §8.4.2.1).
  Grace(const RecoveryStore::Restart& restart, Duration length, TimePoint now)
      : Grace(restart.clients, now + std::max(length, restart.last_lease)) {}
  // On for at most until `end`, where there is anybody to wait for.
  Grace(const std::vector<RecoveryRecord>& clients, TimePoint end);

  bool on() const { return on_; }
  bool IsDue(TimePoint now) const { return on_ && (waiting_for_.empty() || now >= end_); }
  void End();

  // Whether the store knew this client, by this principal, when the server started.
  bool Knew(const std::string& owner, const Principal& principal) const;
  // And it has not said that it is done, under this client ID or one that it had before (RFC 8881 §18.51.3).
  bool MayReclaim(const std::string& owner, const Principal& principal) const;
  // A global RECLAIM_COMPLETE by a client of that name: of that principal, or it is another client, whose word is not
  // that of the one that is waited for. Minor version 0 has none: its clients are waited for.
  void Complete(const std::string& owner, const Principal& principal) {
    if (Knew(owner, principal)) waiting_for_.erase(owner);
  }
  // The client has lost what it had reclaimed: local programs may have had it since.
  void Forget(const std::string& owner);

 private:
  bool on_ = false;
  TimePoint end_{};
  std::unordered_map<std::string, Principal> known_;
  std::unordered_set<std::string> waiting_for_;
};

}  // namespace penstock::nfs::v4
