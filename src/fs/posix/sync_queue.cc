#include "fs/posix/sync_queue.h"

#include <algorithm>
#include <utility>

namespace penstock::fs::posix {

void SyncQueue::Add(Waiter& waiter) {
  const Object* const object = waiter.object.get();
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_first] = waiting_.try_emplace(object);
    at->second.push_back(&waiter);
    if (!is_first) return;  // a sync is under way, or about to be
  }
  pool_.Post([this, object] { Run(object); });
}

void SyncQueue::Run(const Object* object) {
  std::vector<Waiter*> served;
  {
    const std::lock_guard lock(mutex_);
    served = std::exchange(waiting_.at(object), {});
  }
  const bool data_only = std::ranges::all_of(served, &Waiter::data_only);
  // The descriptor is the waiter's, and gone with it: a file that is open for writing cannot be executed.
  const Result<void> result = sync_(served.front()->file->get(), data_only);
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    const auto at = waiting_.find(object);
    more = !at->second.empty();
    if (!more) waiting_.erase(at);
  }
  // Behind others who want a thread meanwhile.
  if (more) pool_.Post([this, object] { Run(object); });
  for (Waiter* const waiter : served) {
    waiter->result = result;
    waiter->loop->Post(waiter->handle);
  }
}

}  // namespace penstock::fs::posix
