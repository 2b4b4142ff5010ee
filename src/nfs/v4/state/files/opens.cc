#include "nfs/v4/state/files/opens.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;

nfsstat4 Opens::NoRoomToOpen(ClientId id, const Dialect& dialect) const {
  const ClientFiles* const client = records_.FindClient(id);
  // Room may come from returned delegations and from other clients. A client at its own limit that holds only opens
  // must close one.
  const bool may_come = IsFull() || (client && client->delegations > 0);
  return may_come ? dialect.errors().no_room : dialect.errors().no_room_until_close;
}

void Opens::RestartOwner(OpenOwner& owner, TimePoint now) {
  assert(!owner.confirmed);
  while (!owner.opens.empty()) RemoveOpen(*owner.opens.front(), Ending::kReleased, true, now);
  owners_.ForgetClosed(owner);
  owner.sequence = {};
}

std::optional<ClientId> Opens::FindShareConflict(const NamedFile& file, const Share& share) const {
  const FileState* const state = records_.FindFile(file);
  const OpenState* const conflict = state ? state->opens.FindConflict(share) : nullptr;
  if (!conflict) return std::nullopt;
  return conflict->client->id;
}

namespace {
bool FindPin(const FileState& file, ExportId by) {
  return std::ranges::find(file.pins, by, &std::pair<ExportId, fs::Pinned>::first) != file.pins.end();
}
}  // namespace

bool Opens::IsPinned(const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  return state && FindPin(*state, file.handle.export_id);
}

OpenState* Opens::Find(const OpenOwner& owner, const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  return state ? state->opens.Find({&owner, file.handle.export_id}) : nullptr;
}

Opens::OpenResult Opens::AddOpen(OpenOwner& owner, const NamedFile& file, const Share& share, const fs::Pinned& pinned,
                                 const Dialect& dialect, TimePoint now) {
  if (const auto blocker = FindShareConflict(file, share)) {
    return {.status = nfs4::NFS4ERR_SHARE_DENIED, .blocker = blocker};
  }
  FileState* state = records_.FindFile(file);
  OpenState* open = Find(owner, file);
  OpenResult result;
  if (open && open->closing) return {.status = nfs4::NFS4ERR_DELAY};
  if (open) {
    result.before = open->history;
    open->Advance();
  } else {
    owners_.KeepBusy(owner);
    if (!room_.MakeRoom(*owner.client, now)) return {.status = NoRoomToOpen(owner.client->id, dialect)};
    state = &records_.GetFile(file);
    open = &records_.AddState(std::make_unique<OpenState>(owner, *state, file.handle));
    state->opens.Add(*open);
    if (pinned && !FindPin(*state, file.handle.export_id)) state->pins.emplace_back(file.handle.export_id, pinned);
    owners_.AddOpen(*open);
    owner.client->frees_stateids = dialect.has_free_stateid() && !IsLockHost(owner.client->id);
    result.is_new = true;
  }
  open->history.Add(share);
  SetShare(*open, open->history.Union());
  result.stateid = records_.IdOf(*open);
  return result;
}

void Opens::SetShare(OpenState& open, const Share& share) {
  if (open.share.deny != 0) --denials_;
  if (share.deny != 0) ++denials_;
  open.file->opens.SetShare(open, share);
}

void Opens::UndoOpen(const OpenResult& opened, TimePoint now) {
  StateRecord* const found = records_.RecordOf(opened.stateid);
  if (!found || found->seqid != opened.stateid.seqid || !found->file) return;
  auto& open = static_cast<OpenState&>(*found);
  if (opened.is_new) {
    RemoveOpen(open, Ending::kReleased, false, now);
    return;
  }
  open.history = opened.before;
  SetShare(open, open.history.Union());
  open.seqid = open.seqid == 1 ? UINT32_MAX : open.seqid - 1;
}

nfsstat4 Opens::Downgrade(OpenState& open, const Share& share) {
  if (open.closing) return nfs4::NFS4ERR_DELAY;
  if (!open.history.Downgrade(share)) return nfs4::NFS4ERR_INVAL;
  SetShare(open, share);
  open.Advance();
  return nfs4::NFS4_OK;
}

void Opens::Close(OpenState& open, const Dialect& dialect, TimePoint now) {
  open.Advance();
  RemoveOpen(open, Ending::kReleased, dialect.counts_owner_seqids(), now);
}

bool Opens::ClosePart(OpenState& open) {
  size_t count = 0;
  for (const LockState* const locks : open.locks) {
    count += 1 + locks->ranges.size();
    if (count <= Locks::kMostAtOnce) continue;
    size_t left = Locks::kMostAtOnce;
    RemoveLocksUnder(open, Ending::kReleased, left);
    return open.closing = true;
  }
  return false;
}

bool Opens::RemoveLocksUnder(OpenState& open, Ending ending, size_t& left) {
  while (!open.locks.empty() && left > 0) locks_.RemovePart(*open.locks.front(), ending, left);
  return open.locks.empty();
}

void Opens::RemoveOpen(OpenState& open, Ending ending, bool keep_stateid, TimePoint now) {
  OpenOwner& owner = *open.owner;
  FileState* const file = open.file;
  if (!file) {  // the open was closed before; only its stateid is left
    owners_.ForgetClosed(owner, ending);
    return;
  }
  while (!open.locks.empty()) locks_.RemoveLocks(*open.locks.front(), ending);
  SetShare(open, {});
  file->opens.Remove(open);
  owners_.RemoveOpen(open);
  if (keep_stateid) {
    owners_.KeepClosed(open);
  } else {
    records_.RemoveState(open, ending);
  }
  owners_.ReleaseOwner(owner, now);
  locks_.TellWaiters(*file, now);
  records_.ForgetFileIfUnused(*file);
}

}  // namespace penstock::nfs::v4
