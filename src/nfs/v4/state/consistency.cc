// Checks of the invariants of clients and sessions; those of files are in files/consistency.cc. Debug builds, tests and
// fuzzers run them.
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {
const char* Clients::FindInconsistency() const {
  size_t unconfirmed = 0;
  for (const auto& [id, client] : clients_) {
    const auto owner = owners_.find(client->key());
    if (client->id != id || owner == owners_.end()) return "a client is where another one should be";
    const Client* named = client->confirmed ? owner->second.confirmed : owner->second.unconfirmed;
    if (named != client.get()) return "an owner's name leads to another client";
    if (!client->confirmed) ++unconfirmed;
    if (!client->confirmed && !client->sessions.empty()) return "a client that is not confirmed has a session";
  }
  for (const auto& [name, owner] : owners_) {
    for (const Client* client : {owner.confirmed, owner.unconfirmed}) {
      if (client && (!clients_.contains(client->id) || client->key() != name)) return "an owner has an unknown client";
    }
    if (!owner.confirmed && !owner.unconfirmed) return "a name without clients is kept";
  }
  if (by_renewal_.size() != clients_.size()) return "there are not as many clients in the order of their renewal";
  return unconfirmed == unconfirmed_count_ ? nullptr : "the totals of clients are wrong";
}

const char* Sessions::FindInconsistency() const {
  size_t owned = 0, persistent = 0, kept = 0, there = 0;
  const char* wrong = nullptr;
  clients_.ForEach([&](const Client& client) {
    size_t requests = 0;
    for (const SessionId& id : client.sessions) {
      const Session* known = Find(id);
      if (!known || known->client != &client) {
        wrong = "a client's session is not its own";
        return;
      }
      requests += known->slots.busy();
    }
    owned += client.sessions.size();
    if (requests != client.requests) wrong = "a client has not as many requests under way as it counts";
  });
  if (wrong) return wrong;
  for (const auto& session : sessions_) {
    if (!session) continue;
    // Each client lists its own sessions, so a session that no client lists belongs to a client that has gone.
    if (session->replies && !session->persistent) return "a session keeps replies and is not persistent";
    if (session->persistent) ++persistent;
    kept += session->slots.kept_octets();
    ++there;
  }
  if (owned != there) return "a session has outlived its client";
  if (there != session_count_ || there + free_sessions_.size() != sessions_.size()) {
    return "there are not as many sessions as are counted";
  }
  return persistent == persistent_count_ && kept == kept_octets_ ? nullptr : "the totals of sessions are wrong";
}

const char* StateTables::FindInconsistency() const {
  for (const char* wrong : {clients.FindInconsistency(), sessions.FindInconsistency(), files.FindInconsistency()}) {
    if (wrong) return wrong;
  }
  return nullptr;
}

}  // namespace penstock::nfs::v4
