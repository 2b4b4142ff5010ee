// The grace period after a restart. During grace, clients reclaim the state that they held, and no client gets new
// state (RFC 8881 §8.4.2.1).
//
//   off                      no client may reclaim, or the period is over
//   on, not due              some clients may still reclaim, and there is time left
//   on, due                  call Close(), so that no client reclaims any more; then RecoveryStore::EndGrace(), so that
//                            the store forgets the clients that did not return; then End()
//
// Besides, a cluster of servers holds the period: then no client gets new state, until the cluster releases it. Clients
// of another server may be reclaiming there.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/timer.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

class Grace {
 public:
  // Makes a period that is off.
  Grace() = default;
  // Makes the period of a server that starts. It is at least as long as the lease that clients were told before (RFC
  // 8881 §8.4.2.1).
  Grace(const RecoveryStore::Restart& restart, Duration length, TimePoint now)
      : Grace(restart.clients, now + std::max(length, restart.last_lease)) {}
  // Makes a period that is on until `end` at most. It is off if `clients` is empty.
  Grace(const std::vector<RecoveryRecord>& clients, TimePoint end);

  bool on() const { return on_ || held_; }
  // Whether the period is on not only because the cluster holds it.
  bool is_own() const { return on_; }
  // Whether there may be clients that may reclaim.
  bool is_open() const { return on_ && !closed_; }
  // Whether clients of version 4 may still reclaim. If not, the period waits for hosts that lock through NLM, which
  // reclaim no delegations, and no shares that keep others from a file.
  bool awaits_clients() const { return is_open() && clients_ > 0; }
  bool IsDue(TimePoint now) const { return on_ && ((waiting_for_.empty() && !commanded_) || now >= end_); }
  // From now on no client may reclaim. The period stays on: the store may still fail, and other servers of a cluster
  // give new state as soon as it tells them that the period is over.
  void Close(TimePoint now) {
    if (!closed_) closed_ = now;
  }
  // Whether it has been closed for so long.
  bool IsClosedFor(Duration time, TimePoint now) const { return closed_ && now - *closed_ >= time; }
  void End();
  // Begins a period, until `end`, because an operator wants it: no client gets new state. Clients that may reclaim go
  // on doing so. An earlier period lasts at least until then.
  void Begin(TimePoint end);
  // Ends the period early: it is due.
  void Hurry() { end_ = TimePoint::min(); }

  void Hold() { held_ = true; }
  void Release() { held_ = false; }

  // Whether the store had a record of this client and principal when the server started.
  bool Knew(const std::string& owner, const Principal& principal) const;
  // Whether, in addition, the client has not sent RECLAIM_COMPLETE under this client ID or an earlier one (RFC 8881
  // §18.51.3).
  bool MayReclaim(const std::string& owner, const Principal& principal) const;
  // Notes a global RECLAIM_COMPLETE by a client of this name. It counts only if the principal is the recorded one;
  // otherwise another client uses the name. Minor version 0 has no RECLAIM_COMPLETE, so the period waits for its
  // clients.
  void Complete(const std::string& owner, const Principal& principal) {
    if (Knew(owner, principal)) StopWaitingFor(owner);
  }
  // Takes from a client the right to reclaim. The client has lost the locks that it had reclaimed, and local programs
  // may have held them since.
  void Forget(const std::string& owner);

 private:
  void StopWaitingFor(const std::string& owner);

  bool on_ = false;
  std::optional<TimePoint> closed_;  // since when
  bool held_ = false;
  bool commanded_ = false;  // an operator has begun it, so that it waits for its end
  TimePoint end_{};
  std::unordered_map<std::string, Principal> known_;
  std::unordered_set<std::string> waiting_for_;
  size_t clients_ = 0;  // of version 4, among waiting_for_
};

}  // namespace penstock::nfs::v4
