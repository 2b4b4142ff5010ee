#include "fs/posix/write_queue.h"

#include <algorithm>
#include <utility>

namespace penstock::fs::posix {
namespace {

// A small number, so that the loop replies to some writes while the thread does the next.
constexpr size_t kMostAtOnce = 4;

}  // namespace

void WriteQueue::Add(Waiter& waiter, const Key& key) {
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = waiting_.try_emplace(key);
    at->second.push_back(&waiter);
    if (!is_new) return;
  }
  Post(key);
}

void WriteQueue::Post(const Key& key) {
  pool_.Post([this, key] { Serve(key); }, key.client, WorkKind::kData);
}

void WriteQueue::Serve(const Key& key) {
  for (bool more = true; more;) {
    std::vector<Waiter*> served;
    {
      const std::lock_guard lock(mutex_);
      std::deque<Waiter*>& waiting = waiting_.find(key)->second;
      const auto end = waiting.begin() + static_cast<ptrdiff_t>(std::min(waiting.size(), kMostAtOnce));
      served.assign(waiting.begin(), end);
      waiting.erase(waiting.begin(), end);
    }
    for (Waiter* const waiter : served) waiter->run();
    {
      const std::lock_guard lock(mutex_);
      const auto at = waiting_.find(key);
      more = !at->second.empty();
      if (!more) waiting_.erase(at);
    }
    const bool yields = more && pool_.is_wanted();
    if (yields) Post(key);  // behind other tasks that wait for a thread
    // Last, because the queue may be destroyed with its last waiter.
    key.loop->Post([served = std::move(served)] {
      for (Waiter* const waiter : served) waiter->handle.resume();
    });
    if (yields) return;
  }
}

}  // namespace penstock::fs::posix
