// Limits how often a frequent message is logged.
#pragma once

#include <atomic>
#include <chrono>
#include <limits>

#include "base/timer.h"

namespace penstock {

// One for each message. Thread-safe.
class LogLimit {
 public:
  explicit LogLimit(Duration interval = std::chrono::minutes(1)) : interval_(interval) {}

  // Returns true if the message should be logged now: the first time, and then once in each interval.
  bool Allows(TimePoint now) {
    Duration::rep next = next_.load();
    const Duration::rep time = now.time_since_epoch().count();
    return time >= next && next_.compare_exchange_strong(next, time + interval_.count());
  }

 private:
  const Duration interval_;
  std::atomic<Duration::rep> next_ = std::numeric_limits<Duration::rep>::min();
};

}  // namespace penstock
