// Waiting for something that changes again and again, and for a time to pass.
#pragma once

#include <coroutine>
#include <utility>
#include <vector>

#include "base/task.h"
#include "base/timer.h"

namespace penstock {

// co_await signal: until the next Notify(). Whoever is woken looks for itself at what has changed. One thread only.
class Signal {
 public:
  // Wakes all that wait now, in their order, before it returns. One of them may destroy the signal.
  void Notify() {
    for (auto waiter : std::exchange(waiters_, {})) waiter.resume();
  }

  auto operator co_await() noexcept {
    struct Awaiter {
      Signal& signal;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) { signal.waiters_.push_back(waiter); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  std::vector<std::coroutine_handle<>> waiters_;
};

// Resumes in a later turn of the loop, also for a delay of zero.
inline Task<void> Sleep(TimerService& timers, Duration delay) {
  OneShot<> over;
  auto timer = timers.MakeTimer([&over] { over.Set(); });
  timer->ExpireAfter(delay);
  co_await over;
}

}  // namespace penstock
