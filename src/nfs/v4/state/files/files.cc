#include "nfs/v4/state/files/files.h"

#include <algorithm>
#include <vector>

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;
using nfs4::stateid4;

bool Files::ForgetPart(ClientId client, Ending ending, TimePoint now, size_t most) {
  const ClientFiles* const files = records_.FindClient(client);
  if (!files) return false;
  for (size_t left = most; !files->states.empty();) {
    if (left == 0) return true;
    StateRecord& record = *files->states.front();
    switch (record.kind) {
      case StateKind::kOpen: {
        auto& open = static_cast<OpenState&>(record);
        if (open.file) open.file->queue.Remove(client);
        if (!opens.RemoveLocksUnder(open, ending, left) || left == 0) return true;
        --left;
        opens.Remove(open, ending, now);
        break;
      }
      case StateKind::kLocks:
        locks.RemovePart(static_cast<LockState&>(record), ending, left);
        break;
      case StateKind::kDelegation:
        --left;
        delegations.RemoveDelegation(static_cast<DelegationState&>(record), ending);
        break;
    }
  }
  return false;
}

void Files::ForgetClient(ClientId client, Ending ending, TimePoint now) {
  ClientFiles* const files = records_.FindClient(client);
  if (!files) return;
  ForgetPart(client, ending, now, SIZE_MAX);
  owners.ForgetClient(*files);
  records_.ForgetClient(client);
}

void Files::RevokeState(const std::function<bool(const FileHandle&)>& is_gone, TimePoint now) {
  std::vector<OpenState*> gone_opens;
  std::vector<DelegationState*> gone_delegations;
  for (const auto& [id, client] : records_.clients()) {
    for (StateRecord* const record : client->states) {
      if (record->kind == StateKind::kOpen) {
        auto* const open = static_cast<OpenState*>(record);
        if (is_gone(open->handle)) gone_opens.push_back(open);
      } else if (record->kind == StateKind::kDelegation) {
        auto* const delegation = static_cast<DelegationState*>(record);
        if (is_gone(delegation->name.handle)) gone_delegations.push_back(delegation);
      }
    }
  }
  for (OpenState* const each : gone_opens) {
    if (each->file) each->file->queue.Remove(each->client->id);
    opens.Remove(*each, Ending::kRevoked, now);
  }
  for (DelegationState* const each : gone_delegations) delegations.RemoveDelegation(*each, Ending::kRevoked);
}

void Files::HandleNewExports(const std::function<bool(ExportId)>& is_referral, TimePoint now) {
  const TimePoint end = now + 2 * records_.limits().lease;
  for (const auto& [id, client] : records_.clients()) {
    std::erase_if(client->moved, [&](const auto& each) { return !is_referral(each.first) || each.second <= now; });
    for (const StateRecord* const record : client->states) {
      if (!record->file) continue;
      std::optional<ExportId> in;
      if (record->kind == StateKind::kOpen) in = static_cast<const OpenState*>(record)->handle.export_id;
      if (record->kind == StateKind::kDelegation) {
        in = static_cast<const DelegationState*>(record)->name.handle.export_id;
      }
      if (in && is_referral(*in)) client->moved.emplace(*in, end);
    }
  }
}

bool Files::HasMoved(ClientId client, TimePoint now) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && std::ranges::any_of(files->moved, [&](const auto& each) { return now < each.second; });
}

void Files::HandleLocationsAsked(ClientId client, ExportId moved) {
  if (ClientFiles* const files = records_.FindClient(client)) files->moved.erase(moved);
}

bool Files::Revoke(const stateid4& id, TimePoint now) {
  StateRecord* const record = records_.RecordOf(id);
  if (!record || !record->file) return false;
  switch (record->kind) {
    case StateKind::kOpen:
      record->file->queue.Remove(record->client->id);
      opens.Remove(static_cast<OpenState&>(*record), Ending::kRevokedByOperator, now);
      return true;
    case StateKind::kLocks: {
      FileState& file = *record->file;  // it stays: the open is under it
      locks.RemoveLocks(static_cast<LockState&>(*record), Ending::kRevokedByOperator);
      locks.TellWaiters(file, now);
      return true;
    }
    case StateKind::kDelegation: {
      auto& delegation = static_cast<DelegationState&>(*record);
      if (delegation.revoked) return false;
      delegations.Revoke(delegation, Delegations::Cause::kOperator);
      return true;
    }
  }
  std::unreachable();
}

bool Files::HasRevokedByOperator(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->operator_losses > 0;
}

bool Files::HasState(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->states.size() > files->revoked + files->closed;
}

std::optional<ClientId> Files::ClientOf(const Presenter& who, const stateid4& id) const {
  const auto record = records_.FindRecord(who, id, nullptr);
  if (!record) return std::nullopt;
  return (*record)->client->id;
}

nfsstat4 Files::Test(const Presenter& who, const stateid4& id) const {
  const auto record = records_.FindRecord(who, id, nullptr);
  return record ? CheckSeqid(who, **record, id) : record.error();
}

nfsstat4 Files::Free(const Presenter& who, const stateid4& id) {
  const auto found = records_.FindAny(who, id);
  if (!found) {
    if (who.client && records_.Acknowledge(*who.client, id)) return nfs4::NFS4_OK;
    return found.error();
  }
  StateRecord& record = **found;
  if (const nfsstat4 status = CheckSeqid(who, record, id); status != nfs4::NFS4_OK) return status;
  switch (record.kind) {
    case StateKind::kOpen:
      return nfs4::NFS4ERR_LOCKS_HELD;
    case StateKind::kLocks: {
      auto& held = static_cast<LockState&>(record);
      if (!held.ranges.empty()) return nfs4::NFS4ERR_LOCKS_HELD;
      locks.RemoveLocks(held, Ending::kReleased);
      return nfs4::NFS4_OK;
    }
    case StateKind::kDelegation: {
      auto& delegation = static_cast<DelegationState&>(record);
      if (!delegation.revoked) return nfs4::NFS4ERR_LOCKS_HELD;
      delegations.RemoveDelegation(delegation, Ending::kReleased);
      return nfs4::NFS4_OK;
    }
  }
  return nfs4::NFS4ERR_BAD_STATEID;
}

// ---- reading and writing

Files::IoVerdict Files::CheckIo(const Presenter& who, const stateid4& id, const NamedFile& file, bool write) const {
  // RFC 8881 §8.2.3: a read with the READ bypass stateid ignores all denials. Denials apply to reads with the anonymous
  // stateid, and to writes with either stateid.
  if (IsReadBypass(id) && !write) return {.client = who.client};
  if (IsAnonymous(id) || IsReadBypass(id)) {
    const FileState* const state = records_.FindFile(file);
    const OpenState* const denial = state ? state->opens.FindDenial(write, nullptr) : nullptr;
    if (!denial) return {.client = who.client};
    return {nfs4::NFS4ERR_LOCKED, who.client, denial->client->id};
  }

  const auto record = records_.FindRecord(who, id, &file.handle);
  if (!record) return {record.error(), who.client, {}};
  const ClientId client = (*record)->client->id;
  if (const nfsstat4 status = CheckSeqid(who, **record, id); status != nfs4::NFS4_OK) return {status, client, {}};

  if ((*record)->kind == StateKind::kDelegation) {
    const bool allowed = !write || static_cast<const DelegationState&>(**record).write;
    return {allowed ? nfs4::NFS4_OK : nfs4::NFS4ERR_OPENMODE, client, {}};
  }
  const OpenState& open = (*record)->kind == StateKind::kOpen ? static_cast<const OpenState&>(**record)
                                                              : *static_cast<const LockState&>(**record).open;
  if (who.dialect.counts_owner_seqids() && !open.owner->confirmed) return {nfs4::NFS4ERR_BAD_STATEID, client, {}};
  if (write) return {open.share.writes() ? nfs4::NFS4_OK : nfs4::NFS4ERR_OPENMODE, client, {}};
  // A client with an open for writing may have to read parts of the file (RFC 8881 §9.1.2). Such an open was not
  // checked against opens that deny reading.
  if (open.share.reads()) return {.client = client};
  if (const OpenState* const denial = open.file->opens.FindDenial(write, &open)) {
    return {nfs4::NFS4ERR_LOCKED, client, denial->client->id};
  }
  return {.client = client};
}

}  // namespace penstock::nfs::v4
