// The sessions of 2004 that outlive the server (persist, draft-talpey-nfsv4-rdma-sess-01 §6.1). After a restart they go
// on: only their opens, locks and delegations are gone, and their channels are closed.
#include <algorithm>
#include <cassert>

#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

namespace sess01 {

bool BoundSessions::FinishCreate(uint64_t id, std::shared_ptr<StreamStorage> storage) {
  BoundSession* const session = Find(id);
  if (!session) {
    if (storage) RemoveStorage(std::move(storage));
    return false;
  }
  assert(session->creating);
  session->creating = false;
  if (storage) {
    session->channels = Channels(ChannelId(1), false);
    session->storage = std::move(storage);
  } else {
    --persistent_count_;
  }
  return session->storage != nullptr;
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
  for (uint32_t stream = 0; stream < saved.streams.size(); ++stream) {
    auto& last = saved.streams[stream];
    if (last)
      session->streams.Restore(StreamId(stream), last->channel, last->xid, last->digest, std::move(last->results));
  }
  ++persistent_count_;
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
