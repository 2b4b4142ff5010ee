// The clock of the counters: cheaper to read than the system's, because every operation reads it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/timer.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace penstock::metrics {

// A point in time of one Clock.
using Ticks = uint64_t;

// Reads the processor's time stamp counter, if the kernel itself uses it as its clock, and so vouches for its rate
// being the same on all processors and all the time. Otherwise it reads the system's clock. Any thread.
class Clock {
 public:
  // Compares the counter with the system's clock, for a millisecond.
  Clock();

  Ticks Now() const {
#if defined(__x86_64__)
    if (counts_cycles_) return __rdtsc();
#endif
    return static_cast<Ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  Duration Between(Ticks begin, Ticks end) const {
    if (end <= begin) return Duration::zero();
    // The product of a longer time, of more than an hour or so, would not fit.
    const Ticks passed = std::min(end - begin, kMostTicks);
    return Duration(static_cast<Duration::rep>(passed * multiplier_ >> kShift));
  }
  bool counts_cycles() const { return counts_cycles_; }

 private:
  static constexpr unsigned kShift = 20;
  static constexpr Ticks kMostTicks = Ticks{1} << 43;
  // The multiplier is below 2^21, since a tick is shorter than two nanoseconds.
  bool counts_cycles_ = false;
  uint64_t multiplier_ = uint64_t{1} << kShift;  // the nanoseconds of a tick, times 2^kShift
};

}  // namespace penstock::metrics
