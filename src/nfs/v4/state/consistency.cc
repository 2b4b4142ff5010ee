// Checks the invariants of clients, hosts that lock, and sessions. files/consistency.cc checks those of files. Debug
// builds, tests and fuzzers run the checks.
#include <algorithm>

#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {
const char* Clients::FindInconsistency() const {
  size_t unconfirmed = 0;
  for (const auto& [id, client] : clients_) {
    const auto owner = owners_.find(client->key());
    if (client->id != id || owner == owners_.end())
      return "a client is listed under another client ID, or its owner is unknown";
    const Client* named = client->confirmed ? owner->second.confirmed : owner->second.unconfirmed;
    if (named != client.get()) return "the owner of a client refers to another client";
    if (!client->confirmed) ++unconfirmed;
    if (!client->confirmed && !client->sessions.empty()) return "an unconfirmed client has a session";
  }
  for (const auto& [name, owner] : owners_) {
    for (const Client* client : {owner.confirmed, owner.unconfirmed}) {
      if (client && (!clients_.contains(client->id) || client->key() != name))
        return "an owner refers to an unknown client or to a client of another owner";
    }
    if (!owner.confirmed && !owner.unconfirmed) return "an owner has no client";
  }
  size_t listed = 0;
  for (const auto& list : by_renewal()) listed += list.size();
  if (listed != clients_.size()) return "the lists of clients by renewal have a wrong length";
  return unconfirmed == unconfirmed_count_ ? nullptr : "the number of unconfirmed clients is wrong";
}

const char* Sessions::FindInconsistency() const {
  size_t owned = 0, persistent = 0, there = 0;
  PerShard<size_t> kept;
  const char* wrong = nullptr;
  clients_.ForEach([&](const Client& client) {
    size_t requests = 0;
    for (const SessionId& id : client.sessions) {
      const Session* known = Find(id);
      if (!known || known->client != &client) {
        wrong = "a client lists a session that is unknown or belongs to another client";
        return;
      }
      if (Shard::Of(id) != Shard::Of(client.id)) {
        wrong = "the ID of a session names another shard than its client's";
        return;
      }
      requests += known->slots.busy();
    }
    owned += client.sessions.size();
    const bool here = client.dialect.session_kind() != SessionKind::kBound;
    if (here && requests != client.requests) wrong = "the number of requests of a client under way is wrong";
  });
  if (wrong) return wrong;
  for (const auto& session : sessions_) {
    if (!session) continue;
    if (session->replies && !session->persistent) return "a session has persistent replies and is not persistent";
    if (session->persistent) ++persistent;
    kept[Shard::Of(session->id)] += session->slots.kept_octets();
    ++there;
  }
  // Each client lists its own sessions, so a session that no client lists belongs to a client that has gone.
  if (owned != there) return "a session is listed by no client, or by several";
  if (there != session_count_ || there + free_sessions_.size() != sessions_.size()) {
    return "the number of sessions or of free places for sessions is wrong";
  }
  return persistent == persistent_count_ && std::ranges::equal(kept.all(), kept_octets_.all())
             ? nullptr
             : "the number of persistent sessions or of kept octets is wrong";
}

const char* LockHosts::FindInconsistency() const {
  size_t at_addresses = 0;
  for (const auto& [address, count] : at_) at_addresses += count;
  if (by_name_.size() != by_id_.size() || by_use_.size() != by_id_.size() || at_addresses != by_id_.size())
    return "the lists of hosts that lock have different lengths";
  for (const auto& [id, host] : by_id_) {
    const auto named = by_name_.find(host.name);
    if (host.id != id || !IsLockHost(id) || named == by_name_.end() || named->second != &host)
      return "a host that locks is listed under another ID or name";
  }
  return nullptr;
}

const char* StateTables::FindInconsistency() const {
  for (const char* wrong : {clients.FindInconsistency(), lock_hosts.FindInconsistency(), sessions.FindInconsistency(),
                            bound_sessions.FindInconsistency(), files.FindInconsistency()}) {
    if (wrong) return wrong;
  }
  const char* wrong = nullptr;
  files.ForEachClient([&](ClientId id) {
    if (IsLockHost(id) && !lock_hosts.Has(id)) wrong = "a host that is not known has locks, shares or owners of them";
  });
  return wrong;
}

}  // namespace penstock::nfs::v4
