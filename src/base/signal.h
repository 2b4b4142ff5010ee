// Lets coroutines wait for repeated changes, and for a time to pass.
#pragma once

#include <coroutine>
#include <utility>
#include <vector>

#include "base/task.h"
#include "base/timer.h"

namespace penstock {

// co_await signal waits until the next Notify(). The waiter then checks the changed condition itself. Not thread-safe.
class Signal {
 public:
  // Resumes all current waiters in their order before it returns. A waiter may destroy the signal.
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

// Resumes the caller in a later turn of the loop, also for a delay of zero.
inline Task<void> Sleep(TimerService& timers, Duration delay) {
  OneShot<> over;
  auto timer = timers.MakeTimer([&over] { over.Set(); });
  timer->ExpireAfter(delay);
  co_await over;
}

}  // namespace penstock
