#include "nfs/v4/state/clients/grace.h"

#include "nfs/v4/state/clients/lock_hosts.h"

namespace penstock::nfs::v4 {

Grace::Grace(const std::vector<RecoveryRecord>& clients, TimePoint end) : on_(!clients.empty()), end_(end) {
  for (const RecoveryRecord& client : clients) {
    known_.emplace(client.owner, client.principal);
    if (waiting_for_.insert(client.owner).second && !ParseLockHostRecord(client)) ++clients_;
  }
}

void Grace::StopWaitingFor(const std::string& owner) {
  if (waiting_for_.erase(owner) > 0 && !ParseLockHostRecord({.owner = owner, .principal = {}})) --clients_;
}

void Grace::Forget(const std::string& owner) {
  known_.erase(owner);
  StopWaitingFor(owner);
}

void Grace::Begin(TimePoint end) {
  end_ = on_ ? std::max(end_, end) : end;
  on_ = commanded_ = true;
}

void Grace::End() {
  const bool held = held_;
  *this = Grace();
  held_ = held;
}

bool Grace::Knew(const std::string& owner, const Principal& principal) const {
  const auto found = known_.find(owner);
  return on_ && found != known_.end() && found->second == principal;
}

bool Grace::MayReclaim(const std::string& owner, const Principal& principal) const {
  return !closed_ && Knew(owner, principal) && waiting_for_.contains(owner);
}

}  // namespace penstock::nfs::v4
