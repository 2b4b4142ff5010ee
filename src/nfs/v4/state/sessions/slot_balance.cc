// Adapts the number of slots that sessions should use to the memory that kept replies need (RFC 8881 §2.10.6.1).
#include <algorithm>

#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {
namespace {

// The time that clients have to learn of a target and to follow it. After that time the server checks whether memory
// suffices, and may change the targets again.
constexpr Duration kTimeToFollow = std::chrono::seconds(10);

}  // namespace

uint32_t Sessions::SlotTarget(const Session& session) const {
  return std::min({session.fore.ca_maxrequests, SlotShare(session_count_), slot_limit_});
}

std::vector<SlotRecall> Sessions::BalanceSlots(TimePoint now) {
  const bool too_many = kept_octets_ > settings_.max_kept_octets;
  const bool few = slot_limit_ < settings_.max_slots && kept_octets_ < settings_.max_kept_octets / 2;
  if ((!too_many && !few) || now < slots_balanced_ + kTimeToFollow) return {};
  slots_balanced_ = now;
  const uint32_t limit = std::min(slot_limit_, settings_.max_slots);
  slot_limit_ = too_many ? std::max(1u, limit / 2) : limit * 2;

  std::vector<SlotRecall> recalls;
  for (const auto& session : sessions_) {
    if (!session) continue;
    session->slots.SetTarget(SlotTarget(*session));
    if (!too_many || !session->slots.owes_slots() || !session->back_channel_works()) continue;
    recalls.push_back({session->client->id, session->id, session->slots.target_highest()});
  }
  return recalls;
}

bool Sessions::OwesSlots(const SlotRecall& recall) const {
  const Session* session = Find(recall.session);
  return session && session->slots.owes_slots() && session->slots.target_highest() == recall.target_highest;
}

}  // namespace penstock::nfs::v4
