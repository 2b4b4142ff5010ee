#include "nfs/v4/state/clients/grace.h"

namespace penstock::nfs::v4 {

Grace::Grace(const std::vector<RecoveryRecord>& clients, TimePoint end) : on_(!clients.empty()), end_(end) {
  for (const RecoveryRecord& client : clients) {
    known_.emplace(client.owner, client.principal);
    waiting_for_.insert(client.owner);
  }
}

void Grace::Forget(const std::string& owner) {
  known_.erase(owner);
  waiting_for_.erase(owner);
}

void Grace::End() { *this = Grace(); }

bool Grace::Knew(const std::string& owner, const Principal& principal) const {
  const auto found = known_.find(owner);
  return on_ && found != known_.end() && found->second == principal;
}

bool Grace::MayReclaim(const std::string& owner, const Principal& principal) const {
  return Knew(owner, principal) && waiting_for_.contains(owner);
}

}  // namespace penstock::nfs::v4
