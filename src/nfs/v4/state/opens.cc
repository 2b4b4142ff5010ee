// Opens and their owners: RFC 8881 §9.7 to §9.11, RFC 7530 §9.1.7 to §9.1.11.
#include <algorithm>
#include <cassert>

#include "nfs/v4/state/files.h"

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;

OpenOwner* Files::FindOpenOwner(ClientId client, ConstBytes name) {
  ClientFiles* const files = FindClient(client);
  if (!files) return nullptr;
  const auto at = files->open_owners.find(AsText(name));
  return at == files->open_owners.end() ? nullptr : at->second.get();
}

OpenOwner* Files::FindOwnerOfClosed(const nfs4::stateid4& id) const {
  const auto found = ids_.Find({}, id);
  if (!found || (*found)->kind != StateKind::kOpen || (*found)->file) return nullptr;
  return static_cast<const OpenState&>(**found).owner;
}

OpenOwner* Files::GetOpenOwner(ClientId client, ConstBytes name, TimePoint now) {
  if (OpenOwner* const known = FindOpenOwner(client, name)) return known;
  ClientFiles& files = GetClient(client);
  SweepIdleOwners(files, now);
  if (files.open_owners.size() >= limits_.owners_per_client) return nullptr;
  auto owner = std::make_unique<OpenOwner>(files, std::string(AsText(name)));
  return files.open_owners.emplace(owner->name, std::move(owner)).first->second.get();
}

void Files::SweepIdleOwners(ClientFiles& client, TimePoint now) {
  while (!client.idle.empty()) {
    OpenOwner& owner = *client.idle.front();
    const bool old = now - owner.idle_since >= limits_.lease;
    // RFC 7530 §9.1.10: they may go whenever memory is short.
    if ((!old && client.open_owners.size() < limits_.owners_per_client) || owner.sequence.busy()) return;
    ForgetClosed(owner);
    client.idle.pop_front();
    client.open_owners.erase(std::string(owner.name));
  }
}

void Files::ForgetClosed(OpenOwner& owner) {
  OpenState* const closed = std::exchange(owner.closed, nullptr);
  if (!closed) return;
  --owner.client->closed;
  RemoveState(*closed, Ending::kReleased);
}

void Files::RestartOwner(OpenOwner& owner, TimePoint now) {
  assert(!owner.confirmed);
  for (bool found = true; found;) {
    const auto own = [&](const StateRecord* record) {
      return record->kind == StateKind::kOpen && record->file && static_cast<const OpenState*>(record)->owner == &owner;
    };
    const auto at = std::ranges::find_if(owner.client->states, own);
    found = at != owner.client->states.end();
    if (found) RemoveOpen(static_cast<OpenState&>(**at), Ending::kReleased, true, now);
  }
  ForgetClosed(owner);
  owner.sequence = {};
}

void Files::ReleaseOwner(OpenOwner& owner, TimePoint now) {
  if (owner.opens > 0 || owner.idle) return;
  ClientFiles& client = *owner.client;
  if (owner.sequence.used()) {
    owner.idle_since = now;
    owner.idle = client.idle.insert(client.idle.end(), &owner);
    return;
  }
  ForgetClosed(owner);
  client.open_owners.erase(std::string(owner.name));
}

std::optional<ClientId> Files::FindShareConflict(const FileHandle& file, const Share& share) const {
  const FileState* const state = FindFile(file);
  if (!state) return std::nullopt;
  const auto at =
      std::ranges::find_if(state->opens, [&](const OpenState* open) { return Conflict(open->share, share); });
  if (at == state->opens.end()) return std::nullopt;
  return (*at)->client->id;
}

bool Files::IsPinned(const FileHandle& file) const {
  const FileState* const state = FindFile(file);
  return state && state->pinned;
}

Files::OpenResult Files::AddOpen(OpenOwner& owner, const FileHandle& file, const Share& share, const fs::Pinned& pinned,
                                 uint32_t minor_version) {
  if (const auto blocker = FindShareConflict(file, share)) {
    return {.status = nfs4::NFS4ERR_SHARE_DENIED, .blocker = blocker};
  }
  FileState* state = FindFile(file);
  OpenState* open = nullptr;
  if (state) {
    const auto at = std::ranges::find(state->opens, &owner, &OpenState::owner);
    if (at != state->opens.end()) open = *at;
  }
  OpenResult result;
  if (open) {
    result.before = open->history;
    open->Advance();
  } else {
    if (!HasRoom(*owner.client)) return {.status = NoRoom(minor_version)};
    state = &GetFile(file);
    open = &AddState(std::make_unique<OpenState>(owner, *state));
    state->opens.push_back(open);
    if (!state->pinned) state->pinned = pinned;
    ++owner.opens;
    if (owner.idle) owner.client->idle.erase(*std::exchange(owner.idle, std::nullopt));
    result.is_new = true;
  }
  open->history.Add(share);
  SetShare(*open, open->history.Union());
  result.stateid = IdOf(*open);
  return result;
}

void Files::SetShare(OpenState& open, const Share& share) {
  if (open.share.deny != 0) --denials_;
  if (share.deny != 0) ++denials_;
  open.share = share;
}

void Files::UndoOpen(const OpenResult& opened, TimePoint now) {
  const auto found = ids_.Find({}, opened.stateid);
  if (!found || (*found)->seqid != opened.stateid.seqid || !(*found)->file) return;
  auto& open = static_cast<OpenState&>(**found);
  if (opened.is_new) {
    RemoveOpen(open, Ending::kReleased, false, now);
    return;
  }
  open.history = opened.before;
  SetShare(open, open.history.Union());
  open.seqid = open.seqid == 1 ? UINT32_MAX : open.seqid - 1;
}

nfsstat4 Files::Downgrade(OpenState& open, const Share& share) {
  if (!open.history.Downgrade(share)) return nfs4::NFS4ERR_INVAL;
  SetShare(open, share);
  open.Advance();
  return nfs4::NFS4_OK;
}

void Files::Close(OpenState& open, uint32_t minor_version, TimePoint now) {
  open.Advance();
  RemoveOpen(open, Ending::kReleased, minor_version == 0, now);
}

void Files::RemoveOpen(OpenState& open, Ending ending, bool keep_stateid, TimePoint now) {
  OpenOwner& owner = *open.owner;
  FileState* const file = open.file;
  if (!file) {  // it was closed before
    owner.closed = nullptr;
    --owner.client->closed;
    RemoveState(open, ending);
    return;
  }
  const std::vector<LockState*> all_locks = file->locks;
  for (LockState* locks : all_locks) {
    if (locks->open == &open) RemoveLocks(*locks, ending);
  }
  std::erase(file->opens, &open);
  SetShare(open, {});
  --owner.opens;
  if (keep_stateid) {
    ForgetClosed(owner);
    open.file = nullptr;
    owner.closed = &open;
    ++owner.client->closed;
  } else {
    RemoveState(open, ending);
  }
  ReleaseOwner(owner, now);
  TellWaiters(*file, now);
  ForgetFileIfUnused(*file);
}

}  // namespace penstock::nfs::v4
