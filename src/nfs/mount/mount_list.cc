#include "nfs/mount/mount_list.h"

#include <algorithm>

namespace penstock::nfs::mount {

void MountList::Add(std::string_view host, std::string_view directory) {
  std::lock_guard lock(mutex_);
  const auto same = [&](const Entry& e) { return e.host == host && e.directory == directory; };
  if (std::ranges::any_of(entries_, same)) return;
  if (entries_.size() == limit_) entries_.pop_front();
  entries_.push_back({std::string(host), std::string(directory)});
}

void MountList::Remove(std::string_view host, std::string_view directory) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& e) { return e.host == host && e.directory == directory; });
}

void MountList::RemoveAll(std::string_view host) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& e) { return e.host == host; });
}

std::vector<MountList::Entry> MountList::Entries() const {
  std::lock_guard lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

}  // namespace penstock::nfs::mount
