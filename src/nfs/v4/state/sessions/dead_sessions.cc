#include "nfs/v4/state/sessions/dead_sessions.h"

#include <algorithm>
#include <utility>

namespace penstock::nfs::v4 {

DeadSessions::DeadSessions(std::vector<SavedSession> sessions, Duration patience, TimePoint now) : patience_(patience) {
  for (SavedSession& saved : sessions) {
    const SessionId id = saved.id;
    if (std::ranges::none_of(saved.slots, [](const auto& kept) { return kept.has_value(); })) {
      ended_.push_back(std::move(saved.storage));
      continue;
    }
    sessions_.emplace(id, Entry{.saved = std::move(saved), .asked = now});
  }
}

Result<xdr::Message, nfs4::nfsstat4> DeadSessions::Retry(const SessionId& id, const ReplySlots::Request& request,
                                                         TimePoint now) {
  Entry& entry = sessions_.at(id);
  if (request.slot.value() >= entry.saved.slots.size()) return std::unexpected(nfs4::NFS4ERR_BADSLOT);
  const std::optional<KeptReply>& kept = entry.saved.slots[request.slot.value()];
  if (!kept || kept->sequence != request.sequence) return std::unexpected(nfs4::NFS4ERR_DEADSESSION);
  if (kept->digest != request.digest) return std::unexpected(nfs4::NFS4ERR_SEQ_FALSE_RETRY);
  entry.asked = now;
  return kept->results;
}

bool DeadSessions::End(const SessionId& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  ended_.push_back(std::move(found->second.saved.storage));
  sessions_.erase(found);
  return true;
}

std::vector<std::shared_ptr<SessionReplies>> DeadSessions::TakeEnded(TimePoint now) {
  std::erase_if(sessions_, [&](auto& each) {
    const bool over = now - each.second.asked > patience_;
    if (over) ended_.push_back(std::move(each.second.saved.storage));
    return over;
  });
  return std::exchange(ended_, {});
}

}  // namespace penstock::nfs::v4
