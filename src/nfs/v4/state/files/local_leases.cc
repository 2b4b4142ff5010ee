// Leases of the file system, which make local programs wait until delegations for reading are returned.
#include <algorithm>

#include "nfs/v4/state/files/delegations.h"

namespace penstock::nfs::v4 {

bool Delegations::NeedsLocalLease(const DelegationRequest& request, TimePoint now) const {
  const FileState* const file = records_.FindFile(request.file);
  return (!file || !file->lease) && Decide(FactsOf(request, now)).type == nfs4::OPEN_DELEGATE_READ;
}

// A delegation is given where local programs cannot change the file behind its holder's back; or where nobody can tell.
bool Delegations::IsWatchable(const NamedFile& name, const std::optional<fs::LeaseReply>& lease) const {
  const FileState* const file = records_.FindFile(name);
  if (file && file->lease) return !file->lease->IsBroken();
  if (!lease || lease->contended) return false;
  if (!lease->lease) return true;
  // A program may have come since the lease was taken. Our own writing would break it: even the holder's, who has the
  // file open.
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
