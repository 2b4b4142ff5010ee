// Counts the work that is under way, so that its owner can wait for its end before it stops.
#pragma once

#include <cstddef>
#include <utility>

#include "base/task.h"

namespace penstock {

// Belongs to one loop. It outlives the work and the wait.
class UnderWay {
 public:
  void Begin() { ++count_; }
  // May resume the coroutine that waits in Ended().
  void End() {
    if (--count_ == 0 && waiter_) std::exchange(waiter_, nullptr)->Set();
  }
  size_t count() const { return count_; }

  // Resumes when no work is under way; at once if there is none. One caller at a time.
  Task<> Ended() {
    if (count_ == 0) co_return;
    OneShot<> ended;
    waiter_ = &ended;
    co_await ended;
  }

 private:
  size_t count_ = 0;
  OneShot<>* waiter_ = nullptr;
};

}  // namespace penstock
