// Repeats a call that cannot be executed at the moment.
//
// Version 3 of NFS answers such a call with NFS3ERR_JUKEBOX, and its client tries again; but it may wait for seconds
// first, so the server waits for a moment. Version 2 and the lock manager (NLM) have no such error, and an application
// would see any other one. So the server itself waits and tries again, while a delegation is recalled or the
// descriptors run out.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"

namespace penstock::nfs {

// The waiting of one call.
class Patience {
 public:
  // `timers` are the loop on which the call waits, or null where no time passes. `ends` makes every wait end soon; any
  // thread may set it. The call's loop must run until it has been resumed.
  Patience(TimerService* timers, Duration limit, const std::atomic<bool>& ends)
      : timers_(timers), left_(limit), ends_(ends) {}

  // Waits a little, longer each time. Returns false if the call has waited for long enough.
  Task<bool> Wait() {
    if (!timers_ || left_ <= Duration::zero() || ends_.load(std::memory_order_relaxed)) co_return false;
    const Duration pause = std::min(pause_, left_);
    left_ -= pause;
    pause_ = std::min(2 * pause_, kLongest);
    co_await Sleep(*timers_, pause);
    co_return true;
  }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(5);
  static constexpr Duration kLongest = std::chrono::milliseconds(250);

  TimerService* const timers_;
  Duration left_;
  Duration pause_ = kShortest;
  const std::atomic<bool>& ends_;
};

}  // namespace penstock::nfs
