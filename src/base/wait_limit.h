// The end of a wait: after a time, or by a Cancellation.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/cancellation.h"
#include "base/timer.h"

namespace penstock {

// Exists while a coroutine waits. Belongs to the loop of `timers`.
class WaitLimit {
 public:
  // `end` makes the wait end, for example by closing a socket. It is called after `time`, and when `cancellation` is
  // cancelled, which may be null and otherwise outlives this object.
  WaitLimit(TimerService& timers, Duration time, Cancellation* cancellation, const std::function<void()>& end)
      : timer_(timers.MakeTimer([this, end] {
          timed_out_ = true;
          end();
        })),
        cancellation_(cancellation),
        entry_(cancellation, end) {
    timer_->ExpireAfter(time);
  }
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

  bool timed_out() const { return timed_out_; }
  bool cancelled() const { return IsCancelled(cancellation_); }

 private:
  bool timed_out_ = false;
  const std::unique_ptr<Timer> timer_;
  Cancellation* const cancellation_;
  const Cancellation::Entry entry_;
};

}  // namespace penstock
