#include "fs/posix/sync_queue.h"

#include <algorithm>
#include <utility>

namespace penstock::fs::posix {

void SyncQueue::Add(Waiter& waiter) {
  const Object* const object = waiter.object.get();
  const Turn turn = waiter.turn;
  {
    const std::lock_guard lock(mutex_);
    Syncs& syncs = syncs_[object];
    const bool is_asked_for = std::ranges::find(syncs.waiting, turn, &Waiter::turn) != syncs.waiting.end();
    syncs.waiting.push_back(&waiter);
    if (syncs.running || is_asked_for) return;
  }
  Post(object, turn);
}

void SyncQueue::Post(const Object* object, const Turn& turn) {
  pool_.Post([this, object] { Run(object); }, turn.client, turn.work);
}

void SyncQueue::Run(const Object* object) {
  std::vector<Waiter*> served;
  {
    const std::lock_guard lock(mutex_);
    const auto at = syncs_.find(object);
    if (at == syncs_.end() || at->second.running)
      return;  // another turn has served these calls, or will post a new turn for them
    at->second.running = true;
    served = std::exchange(at->second.waiting, {});
  }
  const bool data_only = std::ranges::all_of(served, &Waiter::data_only);
  // The descriptor belongs to the waiter and is closed with it, because a file that is open for writing cannot be
  // executed.
  const Result<void> result = sync_(served.front()->file->get(), data_only);
  End(object);
  for (Waiter* const waiter : served) {
    waiter->result = result;
    waiter->loop->Post(waiter->handle);
  }
}

std::optional<Result<void>> SyncQueue::SyncNow(const Object* object, int fd, bool data_only) {
  if (pool_.is_wanted()) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_first] = syncs_.try_emplace(object);
    if (!is_first) return std::nullopt;
    at->second.running = true;
  }
  const Result<void> result = sync_(fd, data_only);
  End(object);
  return result;
}

void SyncQueue::End(const Object* object) {
  std::vector<Turn> more;
  {
    const std::lock_guard lock(mutex_);
    const auto at = syncs_.find(object);
    at->second.running = false;
    for (const Waiter* const waiter : at->second.waiting) {
      if (std::ranges::find(more, waiter->turn) == more.end()) more.push_back(waiter->turn);
    }
    if (more.empty()) syncs_.erase(at);
  }
  // The new turns queue behind other tasks that wait for a thread.
  for (const Turn& turn : more) Post(object, turn);
}

}  // namespace penstock::fs::posix
