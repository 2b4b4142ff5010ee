// The sessions of 2004 that outlive the server (persist, draft-talpey-nfsv4-rdma-sess-01 §6.1). After a restart they go
// on: only their opens, locks and delegations are gone, and their channels are closed.
#include <algorithm>
#include <utility>

#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

namespace sess01 {

// ---- places: max_persistent_sessions

bool BoundSessions::HasShare(const IpAddress& host) const {
  const size_t share = std::max<size_t>(settings_.max_persistent_sessions / 4, 1);
  const auto found = persistent_of_host_.find(host);
  return found != persistent_of_host_.end() && found->second >= share;
}

BoundSession* BoundSessions::InTheWayOf(const IpAddress& host) {
  const bool has_share = HasShare(host);
  for (const uint64_t id : without_storage_) {
    BoundSession& session = *sessions_.at(id);
    if (!session.creating && (!has_share || session.host == host)) return &session;
  }
  return nullptr;
}

void BoundSessions::TakePlace(BoundSession& session) {
  session.persistent = true;
  ++persistent_count_;
  if (!session.host.is_unspecified()) ++persistent_of_host_[session.host];
}

void BoundSessions::LeavePlace(BoundSession& session) {
  if (!std::exchange(session.persistent, false)) return;
  --persistent_count_;
  std::erase(without_storage_, session.id);
  const auto found = persistent_of_host_.find(session.host);
  if (found != persistent_of_host_.end() && --found->second == 0) persistent_of_host_.erase(found);
}

// ---- storage

void BoundSessions::FinishStorage(uint64_t id, std::shared_ptr<StreamStorage> storage) {
  BoundSession* const session = Find(id);
  if (session) session->creating = false;
  if (!storage) return;
  if (!session) return RemoveStorage(std::move(storage));
  session->storage = std::move(storage);
  std::erase(without_storage_, id);
}

BoundSession& BoundSessions::Restore(Client& client, SavedBoundSession saved) {
  const ChannelId first(std::max(saved.channels.end.value(), 1u));
  // The client may have returned streamids before the restart.
  const uint32_t count = saved.channels.streams == 0 ? saved.session.streams : saved.channels.streams;
  auto session = std::make_unique<BoundSession>(BoundSession{.id = saved.session.id,
                                                             .client = client.id,
                                                             .streams = StreamTable(count, true),
                                                             .channels = Channels(first, saved.channels.had_back),
                                                             .storage = std::move(saved.storage)});
  TakePlace(*session);
  for (uint32_t stream = 0; stream < saved.streams.size(); ++stream) {
    auto& last = saved.streams[stream];
    if (last)
      session->streams.Restore(StreamId(stream), last->channel, last->xid, last->digest, std::move(last->results));
  }
  kept_octets_ += session->streams.kept_octets();
  client.bound_session = session->id;
  return *sessions_.emplace(session->id, std::move(session)).first->second;
}

}  // namespace sess01

// The server may have stopped between the first binding of a session and the end of the one before it. Then both were
// bound, and the later one counts.
void StateTables::Restore(std::vector<SavedBoundSession> saved, const Dialect& dialect, TimePoint now) {
  const auto was_bound = [](const SavedBoundSession& each) { return each.channels.end.value() != 0; };
  std::ranges::sort(saved, [&](const SavedBoundSession& a, const SavedBoundSession& b) {
    if (was_bound(a) != was_bound(b)) return was_bound(a);
    return a.session.created > b.session.created;
  });
  for (SavedBoundSession& each : saved) {
    const BoundSessionRecord& session = each.session;
    const Clients::Records known = clients.OfOwner(dialect, session.owner);
    if (was_bound(each) ? known.confirmed != nullptr : known.unconfirmed != nullptr) {
      bound_sessions.RemoveStorage(std::move(each.storage));
      continue;
    }
    Client& client = clients.Add(dialect, session.owner, session.verifier, session.principal, now);
    if (was_bound(each)) clients.MakeConfirmed(client, now);
    bound_sessions.Restore(client, std::move(each));
  }
}

bool StateTables::MakePersistentPlace(const IpAddress& host) {
  if (bound_sessions.HasPlace(host)) return true;
  const sess01::BoundSession* const session = bound_sessions.InTheWayOf(host);
  if (!session) return false;
  if (Client* const client = clients.FindAny(session->client)) {
    RemoveUnbound(*client);
  } else {
    bound_sessions.End(uint64_t{session->id});
  }
  return true;
}

Result<std::optional<BoundSessionRecord>, nfs4::nfsstat4> StateTables::StorageFor(const BindRequest& asked) {
  PENSTOCK_TRY(sess01::BoundSession* const session, FindForBinding(asked));
  if (!session->persistent || session->storage) return std::nullopt;
  session->creating = true;
  const Client& client = *clients.FindAny(session->client);
  return BoundSessionRecord{.id = session->id,
                            .created = client.id.value(),
                            .owner = client.owner,
                            .verifier = client.verifier,
                            .principal = client.principal,
                            .streams = session->streams.count()};
}

Result<std::optional<sess01::Reservation>, nfs4::nfsstat4> StateTables::ReservationFor(const BindRequest& asked) {
  PENSTOCK_TRY(sess01::BoundSession* const session, FindForBinding(asked));
  if (!session->storage || !session->channels.NeedsBlock()) return std::nullopt;
  return sess01::Reservation{
      .storage = session->storage,
      .channels = {.end = session->channels.EndOfNextBlock(), .had_back = asked.type == nfs4::BACK}};
}

void StateTables::Reserved(uint64_t id, const sess01::Reservation& reservation) {
  sess01::BoundSession* const session = bound_sessions.Find(id);
  if (!session || session->storage != reservation.storage) return;
  // Another binding may have reserved the same numbers meanwhile.
  if (session->channels.EndOfNextBlock() == reservation.channels.end) session->channels.ReserveBlock();
}

}  // namespace penstock::nfs::v4
