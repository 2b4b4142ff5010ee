#include "nfs/v4/state/clients/clients.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4 {

std::string OwnerKey(uint32_t minor_version, std::string_view owner) {
  return std::string(minor_version == 0 ? "0" : "1").append(owner);
}

Clients::Clients(const Settings& settings, uint32_t instance, Grace grace, DeadSessions dead_sessions)
    : settings_(settings), instance_(instance), grace_(std::move(grace)), dead_sessions_(std::move(dead_sessions)) {
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
    return client->minor_version == 0 ? nfs4::NFS4_OK : nfs4::NFS4ERR_STALE_CLIENTID;
  }
  const bool ours = id.value() >> 32 == instance_ && static_cast<uint32_t>(id.value()) <= last_client_;
  return ours && static_cast<uint32_t>(id.value()) != 0 ? nfs4::NFS4ERR_EXPIRED : nfs4::NFS4ERR_STALE_CLIENTID;
}

nfs4::nfsstat4 Clients::Check(ClientId id, const Origin& origin) const {
  const nfs4::nfsstat4 status = Check(id);
  if (status != nfs4::NFS4_OK) return status;
  return Find(id)->IsFromMachine(origin) ? nfs4::NFS4_OK : nfs4::NFS4ERR_STALE_CLIENTID;
}

bool Clients::CanCall(ClientId id) const {
  const Client* client = Find(id);
  if (!client) return false;
  if (client->minor_version == 0) return client->path == PathState::kWorks;
  return std::ranges::any_of(client->sessions, [&](const SessionId& s) { return BackChannelWorks(*FindSession(s)); });
}

// ---- leases ----

void Clients::Renew(ClientId id, TimePoint now) {
  Client* client = FindAny(id);
  if (client && client->confirmed && !client->doomed) RenewNow(*client, now);
}

void Clients::RenewNow(Client& client, TimePoint now) {
  client.renewed = std::max(client.renewed, now);
  by_renewal_.splice(by_renewal_.end(), by_renewal_, client.by_renewal);
}

bool Clients::LeaseIsOver(const Client& client, TimePoint now) const {
  return now - client.renewed > settings_.lease && !HasRequests(client);
}

// A client that waits for an answer of ours is not silent, however long we take.
bool Clients::HasRequests(const Client& client) const {
  return std::ranges::any_of(client.sessions, [&](const SessionId& s) { return FindSession(s)->slots.busy() > 0; });
}

bool Clients::IsExpired(ClientId id, TimePoint now) const {
  const Client* client = Find(id);
  return !client || LeaseIsOver(*client, now);
}

std::optional<ClientId> Clients::LongestSilent(TimePoint now, const HasState& has_state) const {
  for (const Client* client : by_renewal_) {
    if (now - client->renewed <= settings_.lease) break;
    if (client->confirmed && !client->doomed && !HasRequests(*client) && has_state(client->id)) return client->id;
  }
  return std::nullopt;
}

std::optional<OldRecord> Clients::Doom(ClientId id, TimePoint now) {
  Client* client = FindAny(id);
  if (!client || client->doomed || !client->confirmed || !LeaseIsOver(*client, now)) return std::nullopt;
  client->doomed = true;
  return RecordOf(*client);
}

void Clients::Reprieve(ClientId id) {
  if (Client* client = FindAny(id)) client->doomed = false;
}

void Clients::Remove(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  while (!client.sessions.empty()) EndSession(client.sessions.back());
  const auto owner = owners_.find(client.key());
  if (owner->second.confirmed == &client) owner->second.confirmed = nullptr;
  if (owner->second.unconfirmed == &client) owner->second.unconfirmed = nullptr;
  if (!owner->second.confirmed && !owner->second.unconfirmed) owners_.erase(owner);
  if (!client.confirmed) --unconfirmed_count_;
  by_renewal_.erase(client.by_renewal);
  clients_.erase(found);
}

std::vector<ClientId> Clients::Sweep(TimePoint now, const HasState& may_stay) {
  std::vector<ClientId> stale, over;
  const bool crowded = clients_.size() - unconfirmed_count_ > settings_.max_clients / 4 * 3;
  for (const Client* client : by_renewal_) {
    if (now - client->renewed <= settings_.lease) break;
    if (client->doomed || HasRequests(*client)) continue;
    if (!client->confirmed) {
      stale.push_back(client->id);
    } else if (crowded || now - client->renewed > settings_.courtesy || !may_stay(client->id)) {
      over.push_back(client->id);
    }
  }
  for (const ClientId id : stale) Remove(id);
  return over;
}

// ---- recovery ----

nfs4::nfsstat4 Clients::CheckNew(ClientId id) const {
  const Client* client = Find(id);
  const bool reclaiming = client && client->minor_version > 0 && !client->reclaim_complete;
  return grace_.on() || reclaiming ? nfs4::NFS4ERR_GRACE : nfs4::NFS4_OK;
}

nfs4::nfsstat4 Clients::CheckReclaim(ClientId id) const {
  const Client* client = Find(id);
  const bool may = client && !client->reclaim_complete && grace_.MayReclaim(client->key(), client->principal);
  return may ? nfs4::NFS4_OK : nfs4::NFS4ERR_NO_GRACE;
}

bool Clients::NeedsRecord(ClientId id) const {
  const Client* client = Find(id);
  if (!client || client->recorded) return false;
  // Until then it has only what it reclaims, for which its old record stands: should the server start again now, it may
  // reclaim everything again. If it has not said that it is done when the grace period ends, it may not (RFC 8881
  // §8.4.3).
  return client->minor_version == 0 || client->reclaim_complete;
}

std::vector<ClientId> Clients::Unrecorded(const HasState& has_state) const {
  std::vector<ClientId> unrecorded;
  for (const auto& [id, client] : clients_) {
    if (NeedsRecord(id) && has_state(id)) unrecorded.push_back(id);
  }
  return unrecorded;
}

OldRecord Clients::RecordOf(const Client& client) const {
  std::string key = client.key();
  if (!client.recorded && !grace_.Knew(key, client.principal)) return std::nullopt;
  return key;
}

void Clients::SetRecorded(ClientId id) {
  if (Client* client = FindAny(id)) client->recorded = true;
}

// ---- records ----

Client& Clients::Add(uint32_t minor_version, std::string_view owner, const nfs4::verifier4& verifier,
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
                                                .minor_version = minor_version,
                                                .owner = std::string(owner),
                                                .verifier = verifier,
                                                .principal = principal,
                                                .renewed = now});
  Client& added = *client;
  Owner& records = owners_[added.key()];
  assert(!records.unconfirmed);
  records.unconfirmed = &added;
  clients_.emplace(id, std::move(client));
  added.by_renewal = by_renewal_.insert(by_renewal_.end(), &added);
  unconfirmed_.push_back(id);
  ++unconfirmed_count_;
  return added;
}

// RFC 7530 §16.34.5: nobody is obliged to wait for confirmation longer than memory lasts.
void Clients::DropOldestUnconfirmed() {
  while (!unconfirmed_.empty()) {
    const ClientId id = unconfirmed_.front();
    unconfirmed_.pop_front();
    const Client* client = FindAny(id);
    if (!client || client->confirmed) continue;
    Remove(id);
    return;
  }
}

bool Clients::IsFull() const { return clients_.size() - unconfirmed_count_ >= settings_.max_clients; }

Gone Clients::MakeConfirmed(Client& client, TimePoint now) {
  assert(!client.confirmed);
  Owner& owner = owners_.at(client.key());
  Gone gone;
  if (Client* before = owner.confirmed) {
    gone = before->id;
    // The store knows them by the same name; a doomed client's record is on its way out.
    client.recorded = before->recorded && !before->doomed && before->principal == client.principal;
    Remove(before->id);
  }
  assert(owner.unconfirmed == &client);
  owner = {.confirmed = &client, .unconfirmed = nullptr};
  client.confirmed = true;
  RenewNow(client, now);
  --unconfirmed_count_;
  return gone;
}

}  // namespace penstock::nfs::v4
