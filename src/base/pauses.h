// Pauses of coroutines that can be ended early, all at once, when their owner stops.
#pragma once

#include <algorithm>
#include <vector>

#include "base/task.h"
#include "base/timer.h"

namespace penstock {

// Belongs to the loop of its TimerService. It outlives the coroutines that pause.
class Pauses {
 public:
  explicit Pauses(TimerService& timers) : timers_(timers) {}

  // Resumes after `duration`; at once if EndAll() was called, or when it is called.
  Task<> For(Duration duration) {
    if (ended_) co_return;
    OneShot<> over;
    waiting_.push_back(&over);
    const auto timer = timers_.MakeTimer([&over] {
      if (!over.is_set()) over.Set();
    });
    timer->ExpireAfter(duration);
    co_await over;
    std::erase(waiting_, &over);
  }

  void EndAll() {
    ended_ = true;
    // A coroutine that resumes removes its pause.
    const std::vector<OneShot<>*> waiting = waiting_;
    for (OneShot<>* pause : waiting) {
      if (std::ranges::find(waiting_, pause) != waiting_.end() && !pause->is_set()) pause->Set();
    }
  }
  bool ended() const { return ended_; }

 private:
  TimerService& timers_;
  std::vector<OneShot<>*> waiting_;
  bool ended_ = false;
};

}  // namespace penstock
