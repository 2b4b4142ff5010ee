// Opens and their owners: RFC 8881 §9.7 to §9.11, RFC 7530 §9.1.7 to §9.1.11.
#include <algorithm>
#include <cassert>

#include "nfs/v4/state/files/files.h"

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
  // RFC 7530 §9.1.10: idle owners may go whenever memory is short.
  const auto crowded = [&] { return files.open_owners.size() >= limits_.owners_per_client; };
  while (SweepIdleOwner(files.idle, crowded(), now)) {
  }
  while (SweepIdleOwner(idle_, owners_ >= limits_.owners, now)) {
  }
  if (crowded() || owners_ >= limits_.owners) return nullptr;
  auto owner = std::make_unique<OpenOwner>(files, std::string(AsText(name)));
  ++owners_;
  return files.open_owners.emplace(owner->name, std::move(owner)).first->second.get();
}

// Forgets the one that is idle longest, where it has been so for a lease time or room is short.
bool Files::SweepIdleOwner(std::list<OpenOwner*>& idle, bool crowded, TimePoint now) {
  if (idle.empty()) return false;
  OpenOwner& owner = *idle.front();
  const bool old = now - owner.idle_since >= limits_.lease;
  if ((!old && !crowded) || owner.sequence.busy()) return false;
  ClientFiles& client = *owner.client;
  ForgetClosed(owner);
  idle_.erase(owner.idle->in_all);
  client.idle.erase(owner.idle->in_client);
  client.open_owners.erase(std::string(owner.name));
  --owners_;
  return true;
}

void Files::AddMaker(OpenOwner& owner, const Principal& principal) {
  if (owner.makers.Has(principal)) return;
  CountOpeners(owner, -1);
  owner.makers.Add(principal);
  CountOpeners(owner, 1);
}

// The makers of an owner that has opens count as openers of its client: see HasOpenBy.
void Files::CountOpeners(OpenOwner& owner, int by) {
  if (owner.opens.empty()) return;
  auto& openers = owner.client->openers;
  for (const Principal& maker : owner.makers.principals()) {
    const auto at = openers.try_emplace(maker, 0).first;
    at->second += static_cast<size_t>(by);
    if (at->second == 0) openers.erase(at);
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
  while (!owner.opens.empty()) RemoveOpen(*owner.opens.front(), Ending::kReleased, true, now);
  ForgetClosed(owner);
  owner.sequence = {};
}

void Files::ReleaseOwner(OpenOwner& owner, TimePoint now) {
  if (!owner.opens.empty() || owner.idle) return;
  ClientFiles& client = *owner.client;
  if (owner.sequence.used()) {
    owner.idle_since = now;
    owner.idle = {client.idle.insert(client.idle.end(), &owner), idle_.insert(idle_.end(), &owner)};
    return;
  }
  ForgetClosed(owner);
  client.open_owners.erase(std::string(owner.name));
  --owners_;
}

std::optional<ClientId> Files::FindShareConflict(const NamedFile& file, const Share& share) const {
  const FileState* const state = FindFile(file);
  const OpenState* const conflict = state ? state->opens.FindConflict(share) : nullptr;
  if (!conflict) return std::nullopt;
  return conflict->client->id;
}

namespace {
bool FindPin(const FileState& file, ExportId by) {
  return std::ranges::find(file.pins, by, &std::pair<ExportId, fs::Pinned>::first) != file.pins.end();
}
}  // namespace

bool Files::IsPinned(const NamedFile& file) const {
  const FileState* const state = FindFile(file);
  return state && FindPin(*state, file.handle.export_id);
}

Files::OpenResult Files::AddOpen(OpenOwner& owner, const NamedFile& file, const Share& share, const fs::Pinned& pinned,
                                 uint32_t minor_version, TimePoint now) {
  if (const auto blocker = FindShareConflict(file, share)) {
    return {.status = nfs4::NFS4ERR_SHARE_DENIED, .blocker = blocker};
  }
  FileState* state = FindFile(file);
  OpenState* open = state ? state->opens.Find({&owner, file.handle.export_id}) : nullptr;
  OpenResult result;
  if (open) {
    result.before = open->history;
    open->Advance();
  } else {
    if (owner.idle) {  // what follows must not forget it
      idle_.erase(owner.idle->in_all);
      owner.client->idle.erase(owner.idle->in_client);
      owner.idle.reset();
    }
    if (!MakeRoom(*owner.client, now)) return {.status = NoRoomToOpen(owner.client->id, minor_version)};
    state = &GetFile(file);
    open = &AddState(std::make_unique<OpenState>(owner, *state, file.handle));
    state->opens.Add(*open);
    if (pinned && !FindPin(*state, file.handle.export_id)) state->pins.emplace_back(file.handle.export_id, pinned);
    open->in_owner = owner.opens.insert(owner.opens.end(), open);
    if (owner.opens.size() == 1) CountOpeners(owner, 1);
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
  open.file->opens.SetShare(open, share);
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
  while (!open.locks.empty()) RemoveLocks(*open.locks.front(), ending);
  SetShare(open, {});
  file->opens.Remove(open);
  if (owner.opens.size() == 1) CountOpeners(owner, -1);
  owner.opens.erase(open.in_owner);
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
