// CB_CREDITRECALL (draft-talpey-nfsv4-rdma-sess-01 §2.4, §6.5): clients use fewer streamids, so that the server needs
// to keep fewer replies.
//
// A session never gets its streamids back: no message of the draft raises totalrequests. So a recall concerns only
// sessions that keep more than their share.
#include <algorithm>
#include <cassert>

#include "nfs/v4/state/sess01/bound_sessions.h"

namespace penstock::nfs::v4::sess01 {

size_t BoundSessions::recallable_octets() const {
  size_t octets = 0;
  for (const auto& [id, session] : sessions_) {
    const Client* const client = clients_.FindAny(session->client);
    if (client && CanCall(*client)) octets += session->streams.kept_octets();
  }
  return octets;
}

void BoundSessions::ForgetReplies(TimePoint now) {
  for (const auto& [id, session] : sessions_) {
    const Client* const client = clients_.FindAny(session->client);
    if (!client || !session->live.empty() || !clients_.LeaseIsOver(*client, now)) continue;
    ChangeStreams(*session, [](StreamTable& streams) { streams.ForgetReplies(); });
  }
}

void BoundSessions::RecallCredits(uint32_t target, size_t other_sessions) {
  assert(target > 0);
  if (sessions_.empty()) return;
  const size_t share = settings_.max_kept_octets / (sessions_.size() + other_sessions);
  for (const auto& [id, session] : sessions_) {
    if (session->streams.kept_octets() <= share || session->streams.count() <= target) continue;
    // The call is under way. One that did not begin is made now.
    if (session->recall && session->recall->deadline) continue;
    const Client* client = clients_.FindAny(session->client);
    if (!client || client->doomed || !CanCall(*client)) continue;
    session->recall = BoundSession::Recall{.target = target};
    recalls_.push_back({.client = session->client, .session = id, .target = target});
  }
}

std::optional<BoundSessions::RecallStart> BoundSessions::BeginRecall(const CreditRecall& recall, TimePoint now) {
  BoundSession* const session = Find(recall.session);
  if (!session || !session->recall || session->recall->target != recall.target || session->recall->deadline) return {};
  if (!CanCall(*clients_.FindAny(session->client))) {
    session->recall.reset();
    return {};
  }
  RecallStart start{.deadline = now + settings_.credit_recall_limit()};
  session->recall->deadline = start.deadline;
  // Channels that are bound from now on have no more credits.
  session->most_credits = std::min(session->most_credits, recall.target);
  for (auto& channel : session->live) {
    if (channel.type != nfs4::OPERATION || channel.limits.credits <= recall.target) continue;
    channel.limits.credits = recall.target;
    if (channel.way) start.ways.push_back(channel.way);
  }
  return start;
}

bool BoundSessions::OwesCredits(const CreditRecall& recall) const {
  const auto found = sessions_.find(recall.session);
  if (found == sessions_.end()) return false;
  const auto& owed = found->second->recall;
  return owed && owed->deadline && owed->target == recall.target;
}

void BoundSessions::FinishRecall(const CreditRecall& recall) {
  BoundSession* const session = Find(recall.session);
  if (!session) return;
  if (session->recall && session->recall->target >= recall.target) session->recall.reset();
  if (session->streams.count() <= recall.target) return;
  // A request may be under way if the client has given it up. Its end then concerns the table no more.
  ChangeStreams(*session, [&](StreamTable& streams) { streams.Lower(recall.target); });
  session->most_credits = std::min(session->most_credits, recall.target);
  std::erase_if(session->stream_waits, [&](auto& each) {
    if (each.stream.value() < recall.target) return false;
    ended_waits_.push_back(std::move(each.wait));
    return true;
  });
  if (!session->storage) return;
  lowered_.push_back({.storage = session->storage,
                      .channels = {.end = session->channels.reserved_until(), .streams = session->streams.count()}});
}

void BoundSessions::EndOverdueRecalls(TimePoint now) {
  for (const auto& [id, session] : sessions_) {
    if (!session->recall || !session->recall->deadline || now < *session->recall->deadline) continue;
    session->recall.reset();
    for (const auto& each : std::vector(session->channels.connections())) {
      CloseConnection(*session, each.number, "its client has not returned credits in time");
    }
  }
}

}  // namespace penstock::nfs::v4::sess01
