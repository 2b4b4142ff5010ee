// SESSION_CREATE, SESSION_BIND and SESSION_DESTROY in the tables. A session has one client, and the client has one
// session: SESSION_CREATE makes both. The first binding confirms the client, as SETCLIENTID_CONFIRM does in
// version 4.0.
#include <algorithm>
#include <utility>

#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

using sess01::BoundSession;

Result<nfs4::SESSIONCREATE4resok, nfs4::nfsstat4> StateTables::CreateBound(const CreateBoundRequest& asked,
                                                                           const Principal& principal, uint64_t random,
                                                                           TimePoint now) {
  using Keeping = sess01::BoundSessions::Keeping;
  const auto answer = [](const BoundSession& session) {
    return nfs4::SESSIONCREATE4resok{
        .sessionid = session.id, .persist = session.persistent, .totalrequests = session.streams.count()};
  };
  const Clients::Records known = clients.OfOwner(asked.dialect, asked.owner);
  Client* const confirmed = known.confirmed;
  if (confirmed && confirmed->doomed) return std::unexpected(nfs4::NFS4ERR_DELAY);  // the server is removing it

  // The same client asks again, perhaps because it has lost the reply.
  for (const Client* client : {known.confirmed, known.unconfirmed}) {
    if (client && client->verifier == asked.verifier && client->principal == principal) {
      return answer(*bound_sessions.Find(*client->bound_session));
    }
  }
  const bool is_used = bound_sessions.OfConnection(asked.connection) || bound_sessions.CreatedOver(asked.connection);
  if (is_used) return std::unexpected(nfs4::NFS4ERR_SESS01_BADBIND);
  // The name belongs to its principal while the lease lasts, also before the first binding.
  for (const Client* client : {known.confirmed, known.unconfirmed}) {
    if (client && client->principal != principal && !clients.LeaseIsOver(*client, now)) {
      return std::unexpected(nfs4::NFS4ERR_CLID_INUSE);
    }
  }
  if (!confirmed && clients.IsFull()) return std::unexpected(nfs4::NFS4ERR_DELAY);
  if (known.unconfirmed) RemoveUnbound(*known.unconfirmed);
  const Keeping keeping = asked.keeps_replies && asked.can_store && MakePersistentPlace(asked.host)
                              ? Keeping::kOnStableStorage
                          : asked.keeps_replies ? Keeping::kInMemory
                                                : Keeping::kNothing;
  Client& client = clients.Add(asked.dialect, asked.owner, asked.verifier, principal, now);
  // The session may keep its streamids for ever, so it gets no more than a session of RFC 8881 would have now.
  const size_t session_count = sessions.session_count() + bound_sessions.size() + 1;
  const uint32_t requests = std::min({asked.requests, slot_limit.get(), slot_limit.Share(session_count)});
  return answer(bound_sessions.Add(client, {.id = random,
                                            .requests = requests,
                                            .keeping = keeping,
                                            .connection = asked.connection,
                                            .back_channel = asked.back_channel,
                                            .host = asked.host}));
}

void StateTables::RemoveUnbound(Client& client) {
  bound_sessions.End(uint64_t{*client.bound_session});
  clients.RemoveUnconfirmed(client);
}

Result<BoundSession*, nfs4::nfsstat4> StateTables::FindForBinding(const BindRequest& asked) {
  BoundSession* const session = bound_sessions.Find(asked.session);
  const Client* const client = session ? clients.FindAny(session->client) : nullptr;
  // The answer is the same for another principal, so that guessing session IDs teaches nothing.
  if (!client || client->principal != Principal::Of(asked.credential)) {
    return std::unexpected(nfs4::NFS4ERR_SESS01_BADSESSION);
  }
  const BoundSession* const other = bound_sessions.OfConnection(asked.connection.number);
  if (other && other != session) return std::unexpected(nfs4::NFS4ERR_SESS01_BADBIND);
  // The store knows the last incarnation of the client by the same name, so wait until its removal has ended.
  const Client* const before = clients.OfOwner(client->dialect, client->owner).confirmed;
  if ((before && before->doomed) || session->creating) return std::unexpected(nfs4::NFS4ERR_DELAY);
  return session;
}

Result<BindResult, nfs4::nfsstat4> StateTables::BindChannel(const BindRequest& asked, TimePoint now) {
  PENSTOCK_TRY(BoundSession* const session, FindForBinding(asked));
  // The session has ended and come back, or has used up its numbers, since the caller reserved some.
  if (session->channels.NeedsBlock()) return std::unexpected(nfs4::NFS4ERR_DELAY);
  Client* const client = clients.FindAny(session->client);
  PENSTOCK_TRY(const auto channel,
               bound_sessions.Bind(*session, asked.type, asked.limits, asked.connection, asked.credential));
  if (!client->confirmed) MakeConfirmed(*client, now);
  clients.Renew(*client, now);
  return BindResult{
      .client = client->id, .channel = channel.id, .credits = channel.credits, .instance = clients.instance()};
}

Result<StateTables::DestroyedSession, nfs4::nfsstat4> StateTables::DestroyBound(ClientId id, const Principal& principal,
                                                                                uint64_t connection, TimePoint now) {
  const Client* const client = clients.FindAny(id);
  // Another request has ended the session meanwhile.
  if (!client || client->doomed) return std::unexpected(nfs4::NFS4ERR_SESS01_BADSESSION);
  if (client->principal != principal) return std::unexpected(nfs4::NFS4ERR_ACCESS);
  BoundSession& session = *bound_sessions.Find(*client->bound_session);
  // A connection creates one session.
  if (const auto creator = session.creator.lock()) creator->set_spent();
  DestroyedSession destroyed{.record = {}, .storage = std::exchange(session.storage, nullptr)};
  bound_sessions.End(uint64_t{session.id}, connection);
  destroyed.record = EndForGood(id, now);
  return destroyed;
}

}  // namespace penstock::nfs::v4
