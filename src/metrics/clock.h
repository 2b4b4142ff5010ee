// The clock of the counters: cheaper to read than the system's, because every operation reads it.
#pragma once

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
    return Duration(static_cast<Duration::rep>(static_cast<double>(end - begin) * nanoseconds_));
  }
  bool counts_cycles() const { return counts_cycles_; }

 private:
  bool counts_cycles_ = false;
  double nanoseconds_ = 1;  // of one tick
};

}  // namespace penstock::metrics
