// Pauses of coroutines that can be ended early, all at once, when their owner stops.
#pragma once

#include "base/cancellation.h"
#include "base/task.h"
#include "base/timer.h"

namespace penstock {

// Resumes after `duration`; at once if `cancellation`, which may be null, was cancelled, or when it is.
inline Task<> Pause(TimerService& timers, Duration duration, Cancellation* cancellation) {
  if (IsCancelled(cancellation)) co_return;
  OneShot<> over;
  const auto end = [&over] {
    if (!over.is_set()) over.Set();
  };
  const auto timer = timers.MakeTimer(end);
  const Cancellation::Entry entry(cancellation, end);
  timer->ExpireAfter(duration);
  co_await over;
}

// Belongs to the loop of its TimerService. It outlives the coroutines that pause.
class Pauses {
 public:
  explicit Pauses(TimerService& timers) : timers_(timers) {}

  // Resumes after `duration`; at once if EndAll() was called, or when it is called.
  Task<> For(Duration duration) { return Pause(timers_, duration, &cancellation_); }

  void EndAll() { cancellation_.Cancel(); }
  bool ended() const { return cancellation_.cancelled(); }

 private:
  TimerService& timers_;
  Cancellation cancellation_;
};

}  // namespace penstock
