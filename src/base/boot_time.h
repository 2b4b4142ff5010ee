// The clock that also runs while the machine is suspended, as the clocks of others do.
#pragma once

#include <time.h>

#include <chrono>

#include "base/timer.h"

namespace penstock {

inline TimePoint BootTime() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace penstock
