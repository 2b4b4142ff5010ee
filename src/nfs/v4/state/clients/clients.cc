#include "nfs/v4/state/clients/clients.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4 {

std::string OwnerKey(const Dialect& dialect, std::string_view owner) {
  return std::string(1, dialect.owner_space()).append(owner);
}

Clients::Clients(const Settings& settings, uint32_t instance, Grace grace)
    : settings_(settings), instance_(instance), grace_(std::move(grace)) {
  assert(instance != 0);
}

// ---- look-ups ----

Client* Clients::FindAny(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

const Client* Clients::Find(ClientId id) const {
  const Client* client = const_cast<Clients*>(this)->FindAny(id);
  return client && client->confirmed && !client->doomed ? client : nullptr;
}

nfs4::nfsstat4 Clients::Check(ClientId id) const {
  if (const Client* client = Find(id)) {
    return client->dialect.has_sessions() ? nfs4::NFS4ERR_STALE_CLIENTID : nfs4::NFS4_OK;
  }
  const bool ours = id.value() >> 32 == instance_ && static_cast<uint32_t>(id.value()) <= last_client_;
  return ours && static_cast<uint32_t>(id.value()) != 0 ? nfs4::NFS4ERR_EXPIRED : nfs4::NFS4ERR_STALE_CLIENTID;
}

nfs4::nfsstat4 Clients::Check(ClientId id, const Origin& origin) const {
  const nfs4::nfsstat4 status = Check(id);
  if (status != nfs4::NFS4_OK) return status;
  return Find(id)->IsFromMachine(origin) ? nfs4::NFS4_OK : nfs4::NFS4ERR_STALE_CLIENTID;
}

// ---- leases ----

void Clients::Renew(ClientId id, TimePoint now) {
  Client* client = FindAny(id);
  if (client && client->confirmed && !client->doomed) Renew(*client, now);
}

void Clients::Renew(Client& client, TimePoint now) {
  client.renewed = std::max(client.renewed, now);
  std::list<Client*>& list = by_renewal_[Shard::Of(client.id)];
  list.splice(list.end(), list, client.by_renewal);
}

bool Clients::LeaseIsOver(const Client& client, TimePoint now) const {
  return IsSilent(client, now) && !HasRequests(client);
}

bool Clients::HasRequests(const Client& client) { return client.requests > 0; }

bool Clients::IsExpired(ClientId id, TimePoint now) const {
  if (IsLockHost(id)) return false;
  const Client* client = Find(id);
  return !client || LeaseIsOver(*client, now);
}

std::optional<OldRecord> Clients::Doom(ClientId id, TimePoint now) {
  const Client* const client = Find(id);
  if (!client || !LeaseIsOver(*client, now)) return std::nullopt;
  return Condemn(id);
}

std::optional<OldRecord> Clients::Condemn(ClientId id) {
  Client* const client = FindAny(id);
  if (!client || client->doomed || !client->confirmed) return std::nullopt;
  client->doomed = true;
  return RecordOf(*client);
}

void Clients::Reprieve(ClientId id) {
  if (Client* client = FindAny(id)) client->doomed = false;
}

// ---- recovery ----

nfs4::nfsstat4 Clients::CheckNew(ClientId id, bool is_delegated) const {
  const Client* client = Find(id);
  const bool reclaiming = client && client->dialect.has_reclaim_complete() && !client->reclaim_complete;
  const bool in_grace = is_delegated ? grace_.is_own() : grace_.on();
  return in_grace || reclaiming ? nfs4::NFS4ERR_GRACE : nfs4::NFS4_OK;
}

nfs4::nfsstat4 Clients::CheckReclaim(ClientId id) const {
  const Client* client = Find(id);
  const bool may = client && !client->reclaim_complete && grace_.MayReclaim(client->key(), client->principal);
  return may ? nfs4::NFS4_OK : nfs4::NFS4ERR_NO_GRACE;
}

bool Clients::NeedsRecord(ClientId id) const {
  const Client* client = Find(id);
  if (!client || client->recorded) return false;
  // Before RECLAIM_COMPLETE, a client that sends it has only reclaimed state. Its old record covers that state: if the
  // server restarts now, the client may reclaim everything again. If the grace period ends before RECLAIM_COMPLETE, the
  // client may not reclaim after the next restart (RFC 8881 §8.4.3).
  return !client->dialect.has_reclaim_complete() || client->reclaim_complete;
}

OldRecord Clients::RecordOf(const Client& client) const {
  std::string key = client.key();
  if (!client.recorded && !grace_.Knew(key, client.principal)) return std::nullopt;
  return key;
}

void Clients::SetRecorded(ClientId id) {
  if (Client* client = FindAny(id)) client->recorded = true;
}

nfs4::nfsstat4 Clients::CompleteReclaim(ClientId id) {
  Client* client = FindAny(id);
  // A new incarnation of the client may have replaced it over another connection since SEQUENCE.
  if (!client || client->doomed) return nfs4::NFS4ERR_DEADSESSION;
  if (client->reclaim_complete) return nfs4::NFS4ERR_COMPLETE_ALREADY;
  client->reclaim_complete = true;
  grace_.Complete(client->key(), client->principal);
  return nfs4::NFS4_OK;
}

// ---- state protection ----

nfs4::nfsstat4 Clients::CheckProtection(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const auto found = clients_.find(id);
  const bool permitted = found == clients_.end() || found->second->Permits(operation, sender);
  return permitted ? nfs4::NFS4_OK : nfs4::NFS4ERR_WRONG_CRED;
}

bool Clients::MachineMay(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const Client* client = Find(id);
  return client && client->protection.allowed.Has(operation) && client->IsMachine(sender);
}

void Clients::SetPath(ClientId id, PathState state) {
  if (Client* client = FindAny(id)) client->path = state;
}

void Clients::SetPath(ClientId id, const CallbackAddress& address, PathState state) {
  if (Client* client = FindAny(id); client && client->callback == address) client->path = state;
}

// ---- records ----

Clients::Records Clients::OfOwner(const Dialect& dialect, std::string_view owner) const {
  const auto found = owners_.find(OwnerKey(dialect, owner));
  return found == owners_.end() ? Records() : found->second;
}

Client& Clients::Add(const Dialect& dialect, std::string_view owner, const nfs4::verifier4& verifier,
                     const Principal& principal, TimePoint now) {
  if (unconfirmed_count_ >= settings_.max_unconfirmed_clients) DropOldestUnconfirmed();
  if (unconfirmed_.size() > 2 * settings_.max_unconfirmed_clients) {
    std::erase_if(unconfirmed_, [this](ClientId id) {
      const Client* client = FindAny(id);
      return !client || client->confirmed;
    });
  }
  const ClientId id(uint64_t{instance_} << 32 | ++last_client_);
  auto client = std::make_unique<Client>(Client{.id = id,
                                                .dialect = dialect,
                                                .owner = std::string(owner),
                                                .verifier = verifier,
                                                .principal = principal,
                                                .renewed = now});
  Client& added = *client;
  Records& records = owners_[added.key()];
  assert(!records.unconfirmed);
  records.unconfirmed = &added;
  clients_.emplace(id, std::move(client));
  std::list<Client*>& list = by_renewal_[Shard::Of(id)];
  added.by_renewal = list.insert(list.end(), &added);
  unconfirmed_.push_back(id);
  ++unconfirmed_count_;
  return added;
}

// RFC 7530 §16.34.5: the server need not keep unconfirmed records if memory is short.
void Clients::DropOldestUnconfirmed() {
  while (!unconfirmed_.empty()) {
    const ClientId id = unconfirmed_.front();
    unconfirmed_.pop_front();
    Client* client = FindAny(id);
    if (!client || client->confirmed) continue;
    RemoveUnconfirmed(*client);
    return;
  }
}

void Clients::MakeConfirmed(Client& client, TimePoint now) {
  Records& records = owners_.at(client.key());
  assert(!client.confirmed && !records.confirmed && records.unconfirmed == &client);
  records = {.confirmed = &client, .unconfirmed = nullptr};
  client.confirmed = true;
  Renew(client, now);
  --unconfirmed_count_;
}

void Clients::RemoveUnconfirmed(Client& client) {
  assert(!client.confirmed);
  --unconfirmed_count_;
  Erase(client);
}

void Clients::Remove(Client& client, const HoldingsForgotten& /*proof*/) {
  if (!client.confirmed) --unconfirmed_count_;
  Erase(client);
}

void Clients::Erase(Client& client) {
  assert(client.sessions.empty());
  const auto records = owners_.find(client.key());
  if (records->second.confirmed == &client) records->second.confirmed = nullptr;
  if (records->second.unconfirmed == &client) records->second.unconfirmed = nullptr;
  if (!records->second.confirmed && !records->second.unconfirmed) owners_.erase(records);
  by_renewal_[Shard::Of(client.id)].erase(client.by_renewal);
  clients_.erase(ClientId(client.id));
}

}  // namespace penstock::nfs::v4
