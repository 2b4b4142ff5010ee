#include "nfs/v4/state/grace.h"

namespace penstock::nfs::v4 {

Grace::Grace(const std::vector<RecoveryRecord>& clients, TimePoint end) : on_(!clients.empty()), end_(end) {
  for (const RecoveryRecord& client : clients) {
    reclaimers_.emplace(client.owner, client.principal);
    waiting_for_.insert(client.owner);
  }
}

void Grace::End() { *this = Grace(); }

bool Grace::MayReclaim(const std::string& owner, const Principal& principal) const {
  const auto found = reclaimers_.find(owner);
  return on_ && found != reclaimers_.end() && found->second == principal;
}

}  // namespace penstock::nfs::v4
