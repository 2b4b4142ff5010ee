// Leases of the file system. They make local programs wait until read delegations are returned.
#include <algorithm>

#include "nfs/v4/state/files/delegations.h"

namespace penstock::nfs::v4 {

bool Delegations::NeedsLocalLease(const DelegationRequest& request, TimePoint now) const {
  const FileState* const file = records_.FindFile(request.file);
  return (!file || !file->lease) && Decide(FactsOf(request, now)).type == nfs4::OPEN_DELEGATE_READ;
}

// Whether a read delegation of the file may be given: a lease makes local programs wait before they change the file, or
// the file system grants no lease although no program has it open for writing.
bool Delegations::IsWatchable(const NamedFile& name, const std::optional<fs::LeaseReply>& lease) const {
  const FileState* const file = records_.FindFile(name);
  if (file && file->lease) return !file->lease->IsBroken();
  if (!lease || lease->contended) return false;
  if (!lease->lease) return true;
  // A program may have opened the file since the lease was taken. The server's own writes for a client that has the
  // file open for writing would break the lease as well, even if that client is to get the delegation.
  return !lease->lease->IsBroken() && !(file && file->opens.HasWriters());
}

void Delegations::AddLease(FileState& file, const std::shared_ptr<fs::LocalLease>& lease) {
  if (file.lease || !lease) return;
  file.lease = lease;
  file.lease_broken = false;
  file.in_leases = leased_.insert(leased_.end(), &file);
}

void Delegations::RemoveLease(FileState& file) {
  if (!file.lease) return;
  (file.lease_broken ? broken_ : leased_).erase(file.in_leases);
  file.lease = nullptr;
}

void Delegations::LookAtLocalLeases(size_t count) {
  for (count = std::min(count, leased_.size()); count > 0; --count) {
    FileState& file = *leased_.front();
    file.lease_broken = file.lease->IsBroken();
    std::list<FileState*>& to = file.lease_broken ? broken_ : leased_;
    to.splice(to.end(), leased_, file.in_leases);
  }
}

std::vector<NamedFile> Delegations::FilesWithBrokenLease() const {
  std::vector<NamedFile> files;
  files.reserve(broken_.size());
  for (const FileState* const file : broken_) files.push_back(file->name);
  return files;
}

}  // namespace penstock::nfs::v4
