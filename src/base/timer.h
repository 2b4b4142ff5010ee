// Time as a dependency: real on an event loop, virtual in a simulation.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace penstock {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// An alarm that can be set repeatedly. Its function runs on the loop of the TimerService that made it.
class Timer {
 public:
  virtual ~Timer() = default;  // cancels
  // Replaces an earlier setting. After this returns, the earlier expiry does not call the function.
  virtual void ExpireAfter(Duration delay) = 0;
  virtual void Cancel() = 0;
};

class TimerService {
 public:
  virtual ~TimerService() = default;
  virtual TimePoint Now() const = 0;
  virtual std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) = 0;
};

}  // namespace penstock
