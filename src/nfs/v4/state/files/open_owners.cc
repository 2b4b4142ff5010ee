#include "nfs/v4/state/files/open_owners.h"

#include <cassert>

namespace penstock::nfs::v4 {

OpenOwner* OpenOwners::FindOpenOwner(ClientId client, ConstBytes name) {
  ClientFiles* const files = records_.FindClient(client);
  if (!files) return nullptr;
  const auto at = files->open_owners.find(AsText(name));
  return at == files->open_owners.end() ? nullptr : at->second.get();
}

OpenOwner* OpenOwners::FindOwnerOfClosed(const nfs4::stateid4& id) const {
  const StateRecord* const found = records_.RecordOf(id);
  if (!found || found->kind != StateKind::kOpen || found->file) return nullptr;
  return static_cast<const OpenState&>(*found).owner;
}

OpenOwner* OpenOwners::GetOpenOwner(ClientId client, ConstBytes name, TimePoint now) {
  if (OpenOwner* const known = FindOpenOwner(client, name)) return known;
  ClientFiles& files = records_.GetClient(client);
  // RFC 7530 §9.1.10: the server may forget idle owners if memory is short.
  const auto crowded = [&] { return files.open_owners.size() >= records_.limits().owners_per_client; };
  while (SweepIdleOwner(files.idle, crowded(), now)) {
  }
  while (SweepIdleOwner(idle_, count_ >= records_.limits().owners, now)) {
  }
  if (crowded() || count_ >= records_.limits().owners) return nullptr;
  auto owner = std::make_unique<OpenOwner>(files, std::string(AsText(name)));
  ++count_;
  return files.open_owners.emplace(owner->name, std::move(owner)).first->second.get();
}

bool OpenOwners::SweepIdleOwner(std::list<OpenOwner*>& idle, bool crowded, TimePoint now) {
  if (idle.empty()) return false;
  OpenOwner& owner = *idle.front();
  const bool old = now - owner.idle_since >= records_.limits().lease;
  if ((!old && !crowded) || owner.sequence.busy()) return false;
  ClientFiles& client = *owner.client;
  ForgetClosed(owner);
  idle_.erase(owner.idle->in_all);
  client.idle.erase(owner.idle->in_client);
  client.open_owners.erase(std::string(owner.name));
  --count_;
  return true;
}

void OpenOwners::AddMaker(OpenOwner& owner, const Principal& principal) {
  if (owner.makers.Has(principal)) return;
  CountOpeners(owner, -1);
  owner.makers.Add(principal);
  CountOpeners(owner, 1);
}

void OpenOwners::CountOpeners(OpenOwner& owner, int by) {
  if (owner.opens.empty()) return;
  auto& openers = owner.client->openers;
  for (const Principal& maker : owner.makers.principals()) {
    const auto at = openers.try_emplace(maker, 0).first;
    at->second += static_cast<size_t>(by);
    if (at->second == 0) openers.erase(at);
  }
}

void OpenOwners::ForgetClosed(OpenOwner& owner, Ending ending) {
  OpenState* const closed = std::exchange(owner.closed, nullptr);
  if (!closed) return;
  --owner.client->closed;
  records_.RemoveState(*closed, ending);
}

void OpenOwners::ReleaseOwner(OpenOwner& owner, TimePoint now) {
  if (!owner.opens.empty() || owner.idle) return;
  ClientFiles& client = *owner.client;
  if (owner.sequence.used()) {
    owner.idle_since = now;
    owner.idle = {client.idle.insert(client.idle.end(), &owner), idle_.insert(idle_.end(), &owner)};
    return;
  }
  ForgetClosed(owner);
  client.open_owners.erase(std::string(owner.name));
  --count_;
}

bool OpenOwners::HasOpenBy(ClientId client, const Principal& principal) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->openers.contains(principal);
}

void OpenOwners::KeepBusy(OpenOwner& owner) {
  if (!owner.idle) return;
  idle_.erase(owner.idle->in_all);
  owner.client->idle.erase(owner.idle->in_client);
  owner.idle.reset();
}

void OpenOwners::AddOpen(OpenState& open) {
  OpenOwner& owner = *open.owner;
  assert(!owner.idle);
  open.in_owner = owner.opens.insert(owner.opens.end(), &open);
  if (owner.opens.size() == 1) CountOpeners(owner, 1);
}

void OpenOwners::RemoveOpen(OpenState& open) {
  OpenOwner& owner = *open.owner;
  if (owner.opens.size() == 1) CountOpeners(owner, -1);
  owner.opens.erase(open.in_owner);
}

void OpenOwners::KeepClosed(OpenState& open) {
  OpenOwner& owner = *open.owner;
  ForgetClosed(owner);
  open.file = nullptr;
  owner.closed = &open;
  ++owner.client->closed;
}

void OpenOwners::ForgetClient(ClientFiles& client) {
  for (const OpenOwner* owner : client.idle) idle_.erase(owner->idle->in_all);
  client.idle.clear();
  count_ -= client.open_owners.size();
  client.open_owners.clear();
}

}  // namespace penstock::nfs::v4
