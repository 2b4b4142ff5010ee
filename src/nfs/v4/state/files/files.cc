#include "nfs/v4/state/files/files.h"

#include <cassert>

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;
using nfs4::stateid4;

Files::Files(uint32_t instance, const SipKey& secret, const Limits& limits)
    : limits_(limits), ids_(instance, secret), conflicts_(limits.conflict_memory) {}

FileState* Files::FindFile(const NamedFile& name) const {
  const auto at = files_.find(name);
  return at == files_.end() ? nullptr : at->second.get();
}

FileState& Files::GetFile(const NamedFile& name) {
  auto& file = files_[name];
  if (!file) file = std::make_unique<FileState>(name);
  return *file;
}

void Files::ForgetFileIfUnused(FileState& file) {
  if (file.opens.empty()) {
    file.pins.clear();
    file.queue = {};  // only those who have the file open can wait for its locks
  }
  if (file.opens.empty() && file.delegations.empty()) files_.erase(NamedFile(file.name));
}

ClientFiles* Files::FindClient(ClientId client) const {
  const auto at = clients_.find(client);
  return at == clients_.end() ? nullptr : at->second.get();
}

ClientFiles& Files::GetClient(ClientId client) {
  auto& files = clients_[client];
  if (!files) files = std::make_unique<ClientFiles>(client);
  return *files;
}

// ---- room

namespace {

// What of a limit is left for opens and locks when there are no more delegations to be had, and when those that there are go.
size_t WithoutDelegations(size_t limit) { return limit - limit / 4; }
size_t NearlyAll(size_t limit) { return limit - limit / 16; }

}  // namespace

bool Files::HasRoom(const ClientFiles& client) const {
  return ids_.size() < limits_.states && client.states.size() < limits_.states_per_client;
}

bool Files::HasRoomForDelegation(const ClientFiles& client) const {
  return delegations_ < limits_.delegations && ids_.size() < WithoutDelegations(limits_.states) &&
         client.states.size() < WithoutDelegations(limits_.states_per_client);
}

bool Files::HasRoomForRanges(const ClientFiles& client, size_t more) const {
  return client.ranges + more <= limits_.ranges_per_client && ranges_ + more <= limits_.ranges;
}

bool Files::MakeRoom(ClientFiles& client, TimePoint now) {
  if (client.states.size() >= NearlyAll(limits_.states_per_client)) RecallOldest(client.unrecalled, now);
  if (ids_.size() >= NearlyAll(limits_.states)) RecallOldest(unrecalled_, now);
  if (HasRoom(client)) return true;
  RemoveOverdue(now);
  // RFC 7530 §9.1.10: what is closed may go whenever room is short.
  while (client.states.size() >= limits_.states_per_client && SweepIdleOwner(client.idle, true, now)) {
  }
  while (ids_.size() >= limits_.states && SweepIdleOwner(idle_, true, now)) {
  }
  return HasRoom(client);
}

nfsstat4 Files::NoRoomToOpen(ClientId id, uint32_t minor_version) const {
  if (minor_version == 0) return nfs4::NFS4ERR_RESOURCE;
  const ClientFiles* const client = FindClient(id);
  // Delegations come back, and so do other clients' opens. Who has nothing but opens of its own must close some, and waits in vain.
  const bool comes = IsFull() || (client && client->delegations > 0);
  return comes ? nfs4::NFS4ERR_DELAY : nfs4::NFS4ERR_NOSPC;
}

void Files::RemoveState(StateRecord& record, Ending ending) {
  record.client->states.erase(record.in_client);
  ids_.Remove(record, ending);
}

void Files::ForgetClient(ClientId client, Ending ending, TimePoint now) {
  ClientFiles* const files = FindClient(client);
  if (!files) return;
  while (!files->states.empty()) {
    StateRecord& record = *files->states.front();
    switch (record.kind) {
      case StateKind::kOpen: {
        auto& open = static_cast<OpenState&>(record);
        if (open.file) open.file->queue.Remove(client);
        RemoveOpen(open, ending, false, now);
        break;
      }
      case StateKind::kLocks:
        RemoveLocks(static_cast<LockState&>(record), ending);
        break;
      case StateKind::kDelegation:
        RemoveDelegation(static_cast<DelegationState&>(record), ending);
        break;
    }
  }
  for (const OpenOwner* owner : files->idle) idle_.erase(owner->idle->in_all);
  owners_ -= files->open_owners.size();
  clients_.erase(client);
}

bool Files::HasState(ClientId client) const {
  const ClientFiles* const files = FindClient(client);
  return files && files->states.size() > files->revoked + files->closed;
}

bool Files::HasOpenBy(ClientId client, const Principal& principal) const {
  const ClientFiles* const files = FindClient(client);
  return files && files->openers.contains(principal);
}

bool Files::HasDelegations(ClientId client) const {
  const ClientFiles* const files = FindClient(client);
  return files && files->delegations > 0;
}

bool Files::HasRevoked(ClientId client) const {
  const ClientFiles* const files = FindClient(client);
  return files && files->revoked > 0;
}

Result<StateRecord*, nfsstat4> Files::FindRecord(const Presenter& who, const stateid4& id,
                                                 const FileHandle* file) const {
  PENSTOCK_TRY(StateRecord * record, ids_.Find(who, id));
  if (record->kind == StateKind::kDelegation) {
    const auto& delegation = static_cast<const DelegationState&>(*record);
    if (file && delegation.name.handle != *file) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
    if (delegation.revoked) return std::unexpected(nfs4::NFS4ERR_DELEG_REVOKED);
    return record;
  }
  if (!record->file) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  const OpenState& open = record->kind == StateKind::kOpen ? static_cast<const OpenState&>(*record)
                                                           : *static_cast<const LockState&>(*record).open;
  if (file && open.handle != *file) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  return record;
}

std::optional<ClientId> Files::ClientOf(const Presenter& who, const stateid4& id) const {
  const auto record = FindRecord(who, id, nullptr);
  if (!record) return std::nullopt;
  return (*record)->client->id;
}

nfsstat4 Files::Test(const Presenter& who, const stateid4& id) const {
  const auto record = FindRecord(who, id, nullptr);
  return record ? CheckSeqid(who, **record, id) : record.error();
}

nfsstat4 Files::Free(const Presenter& who, const stateid4& id) {
  const auto found = ids_.Find(who, id);
  if (!found) return found.error();
  StateRecord& record = **found;
  if (const nfsstat4 status = CheckSeqid(who, record, id); status != nfs4::NFS4_OK) return status;
  switch (record.kind) {
    case StateKind::kOpen:
      return nfs4::NFS4ERR_LOCKS_HELD;
    case StateKind::kLocks: {
      auto& locks = static_cast<LockState&>(record);
      if (!locks.ranges.empty()) return nfs4::NFS4ERR_LOCKS_HELD;
      RemoveLocks(locks, Ending::kReleased);
      return nfs4::NFS4_OK;
    }
    case StateKind::kDelegation: {
      auto& delegation = static_cast<DelegationState&>(record);
      if (!delegation.revoked) return nfs4::NFS4ERR_LOCKS_HELD;
      RemoveDelegation(delegation, Ending::kReleased);
      return nfs4::NFS4_OK;
    }
  }
  return nfs4::NFS4ERR_BAD_STATEID;
}

// --- Reading and writing

Files::IoVerdict Files::CheckIo(const Presenter& who, const stateid4& id, const NamedFile& file, bool write) const {
  // RFC 8881 §8.2.3: reads may pass all denials with the one, and writes none with either.
  if (IsReadBypass(id) && !write) return {.client = who.client};
  if (IsAnonymous(id) || IsReadBypass(id)) {
    const FileState* const state = FindFile(file);
    const OpenState* const denial = state ? state->opens.FindDenial(write, nullptr) : nullptr;
    if (!denial) return {.client = who.client};
    return {nfs4::NFS4ERR_LOCKED, who.client, denial->client->id};
  }

  const auto record = FindRecord(who, id, &file.handle);
  if (!record) return {record.error(), who.client, {}};
  const ClientId client = (*record)->client->id;
  if (const nfsstat4 status = CheckSeqid(who, **record, id); status != nfs4::NFS4_OK) return {status, client, {}};

  if ((*record)->kind == StateKind::kDelegation) {
    const bool allowed = !write || static_cast<const DelegationState&>(**record).write;
    return {allowed ? nfs4::NFS4_OK : nfs4::NFS4ERR_OPENMODE, client, {}};
  }
  const OpenState& open = (*record)->kind == StateKind::kOpen ? static_cast<const OpenState&>(**record)
                                                              : *static_cast<const LockState&>(**record).open;
  if (who.minor_version == 0 && !open.owner->confirmed) return {nfs4::NFS4ERR_BAD_STATEID, client, {}};
  if (write) return {open.share.writes() ? nfs4::NFS4_OK : nfs4::NFS4ERR_OPENMODE, client, {}};
  // Clients that write may have to read for it (RFC 8881 §9.1.2); that others deny reading is then still to be found out.
  if (open.share.reads()) return {.client = client};
  if (const OpenState* const denial = open.file->opens.FindDenial(write, &open)) {
    return {nfs4::NFS4ERR_LOCKED, client, denial->client->id};
  }
  return {.client = client};
}

}  // namespace penstock::nfs::v4
