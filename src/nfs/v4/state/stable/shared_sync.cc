#include "nfs/v4/state/stable/shared_sync.h"

namespace penstock::nfs::v4 {

bool SharedSync::Run() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++asked_;
  while (done_ < mine && !failed_) {
    if (running_) {
      changed_.wait(lock);
      continue;
    }
    running_ = true;
    const uint64_t covered = asked_;
    lock.unlock();
    const bool synchronized = sync_();
    lock.lock();
    running_ = false;
    if (synchronized) done_ = covered;
    failed_ = !synchronized;
    changed_.notify_all();
  }
  return done_ >= mine;
}

bool SharedSync::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace penstock::nfs::v4
