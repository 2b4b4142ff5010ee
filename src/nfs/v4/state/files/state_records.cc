#include "nfs/v4/state/files/state_records.h"

#include <cassert>
#include <iterator>

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;
using nfs4::stateid4;

FileState* StateRecords::FindFile(const NamedFile& name) const {
  const auto at = files_.find(name);
  return at == files_.end() ? nullptr : at->second.get();
}

FileState& StateRecords::GetFile(const NamedFile& name) {
  auto& file = files_[name];
  if (!file) file = std::make_unique<FileState>(name);
  return *file;
}

void StateRecords::ForgetFileIfUnused(FileState& file) {
  if (file.opens.empty()) {
    file.pins.clear();
    file.queue = {};  // only clients that have the file open can wait for its locks
  }
  if (file.opens.empty() && file.delegations.empty()) files_.erase(NamedFile(file.name));
}

ClientFiles* StateRecords::FindClient(ClientId client) const {
  const auto at = clients_.find(client);
  return at == clients_.end() ? nullptr : at->second.get();
}

ClientFiles& StateRecords::GetClient(ClientId client) {
  auto& files = clients_[client];
  if (!files) files = std::make_unique<ClientFiles>(client);
  return *files;
}

void StateRecords::ForgetClient(ClientId client) {
  ClientFiles& files = *FindClient(client);
  assert(files.states.empty());
  for (const auto& [slot, loss] : files.losses) ids_.Release(slot);
  clients_.erase(client);
}

void StateRecords::RemoveState(StateRecord& record, Ending ending) {
  ClientFiles& client = *record.client;
  client.states.erase(record.in_client);
  --kinds_[static_cast<size_t>(record.kind)];
  if (const auto noted = client.losses.find(record.index); noted != client.losses.end()) EraseLoss(client, noted);
  const bool is_lost = ending == Ending::kRevokedByOperator || ending == Ending::kNotReturned;
  if (is_lost && client.frees_stateids && client.losses.size() < limits_.revoked_per_client) {
    AddLoss(record, ending == Ending::kRevokedByOperator);
    ids_.Remove(record, ending, true);
    return;
  }
  if (record.kind == StateKind::kOpen) EraseLossesUnder(client, record.index);
  ids_.Remove(record, ending);
}

void StateRecords::AddLoss(const StateRecord& record, bool by_operator) {
  ClientFiles& client = *record.client;
  const bool has_open = record.kind == StateKind::kLocks;
  const uint32_t under = has_open ? static_cast<const LockState&>(record).open->index : record.index;
  client.losses.emplace(record.index, Loss{.under = under, .by_operator = by_operator});
  if (by_operator) ++client.operator_losses;
}

void StateRecords::EraseLoss(ClientFiles& client, std::map<uint32_t, Loss>::iterator at) {
  if (at->second.by_operator) --client.operator_losses;
  client.losses.erase(at);
}

void StateRecords::EraseLossesUnder(ClientFiles& client, uint32_t open) {
  for (auto at = client.losses.begin(); at != client.losses.end();) {
    const auto next = std::next(at);
    if (at->second.under == open) {
      ids_.Release(at->first);
      EraseLoss(client, at);
    }
    at = next;
  }
}

bool StateRecords::Acknowledge(ClientId client, const stateid4& id) {
  ClientFiles* const files = FindClient(client);
  const auto slot = ids_.EndedSlotOf(id);
  if (!files || !slot) return false;
  const auto lost = files->losses.find(*slot);
  if (lost == files->losses.end()) return false;
  if (lost->second.under == *slot) {
    EraseLossesUnder(*files, *slot);
  } else {
    ids_.Release(*slot);
    EraseLoss(*files, lost);
  }
  return true;
}

Result<StateRecord*, nfsstat4> StateRecords::FindRecord(const Presenter& who, const stateid4& id,
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

}  // namespace penstock::nfs::v4
