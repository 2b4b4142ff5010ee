// Repeats a call that cannot be executed at the moment.
//
// Version 3 answers such a call with NFS3ERR_JUKEBOX, and its client tries again. Version 2 has no such error, and an
// application would see any other one. So the server itself waits and tries again, while a delegation is recalled or
// the descriptors run out. If that takes longer than Settings::patience, the call gets no reply and its connection
// ends: the client sends the call again over a new one, as it does when a server restarts.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"

namespace penstock::nfs::v2 {

// The waiting of one call.
class Patience {
 public:
  // `loop` is the call's, or null in a simulation, where no time passes. `ends` makes every wait end soon; any thread
  // may set it.
  Patience(Loop* loop, Duration limit, const std::atomic<bool>& ends) : loop_(loop), left_(limit), ends_(ends) {}

  // Waits a little, longer each time. Returns false if the call has waited for long enough.
  Task<bool> Wait() {
    if (!loop_ || left_ <= Duration::zero() || ends_.load(std::memory_order_relaxed)) co_return false;
    const Duration pause = std::min(pause_, left_);
    left_ -= pause;
    pause_ = std::min(2 * pause_, kLongest);
    co_await Sleep(*loop_, pause);
    co_return true;
  }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(5);
  static constexpr Duration kLongest = std::chrono::milliseconds(250);

  Loop* const loop_;
  Duration left_;
  Duration pause_ = kShortest;
  const std::atomic<bool>& ends_;
};

}  // namespace penstock::nfs::v2
