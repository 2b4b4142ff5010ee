#include "nfs/v4/state/files/state_records.h"

#include <cassert>

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
  assert(FindClient(client)->states.empty());
  clients_.erase(client);
}

void StateRecords::RemoveState(StateRecord& record, Ending ending) {
  record.client->states.erase(record.in_client);
  --kinds_[static_cast<size_t>(record.kind)];
  ids_.Remove(record, ending);
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
