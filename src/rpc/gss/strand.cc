#include "rpc/gss/strand.h"

#include <cassert>
#include <utility>

namespace penstock::rpc::gss {

bool Strand::TryEnter() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(busy_, true);
}

void Strand::Leave(Workers* pool) {
  std::move_only_function<void()> next;
  {
    const std::lock_guard lock(mutex_);
    assert(busy_);
    if (waiting_.empty()) {
      busy_ = false;
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  assert(pool);
  Run(*pool, std::move(next));
}

void Strand::Post(Workers& pool, std::move_only_function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(busy_, true)) {
      waiting_.push_back(std::move(function));
      return;
    }
  }
  Run(pool, std::move(function));
}

// Posts each function separately, so that other users of the pool get threads in between.
void Strand::Run(Workers& pool, std::move_only_function<void()> function) {
  pool.Post([this, &pool, running = std::move(function)]() mutable {
    running();
    Leave(&pool);
  });
}

}  // namespace penstock::rpc::gss
