// Tells sessions of RFC 8881 how many slots to use (RFC 8881 §2.10.6.1). See SlotLimit.
#include <algorithm>

#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {

Sessions::SlotCounts Sessions::CountSlots() const {
  SlotCounts counts;
  for (const auto& session : sessions_) {
    if (!session) continue;
    counts.slots += session->slots.count();
    counts.busy += session->slots.busy();
  }
  return counts;
}

// A client learns of a change by its next SEQUENCE.
uint32_t Sessions::SlotTarget(const Session& session) const {
  return std::min({session.fore.ca_maxrequests, slot_limit_.Share(session_count_), slot_limit_.get()});
}

std::vector<SlotRecall> Sessions::FollowSlotLimit() {
  std::vector<SlotRecall> recalls;
  for (const auto& session : sessions_) {
    if (!session) continue;
    session->slots.SetTarget(SlotTarget(*session));
    if (!session->slots.owes_slots() || !session->back_channel_works()) continue;
    recalls.push_back({session->client->id, session->id, session->slots.target_highest()});
  }
  return recalls;
}

bool Sessions::OwesSlots(const SlotRecall& recall) const {
  const Session* session = Find(recall.session);
  return session && session->slots.owes_slots() && session->slots.target_highest() == recall.target_highest;
}

}  // namespace penstock::nfs::v4
