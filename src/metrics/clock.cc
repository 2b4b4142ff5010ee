#include "metrics/clock.h"

#include <fstream>
#include <string>

namespace penstock::metrics {
namespace {

#if defined(__x86_64__)
bool KernelTrustsCounter() {
  std::ifstream source("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return source >> name && name == "tsc";
}
#endif

}  // namespace

Clock::Clock() {
#if defined(__x86_64__)
  if (!KernelTrustsCounter()) return;
  using Steady = std::chrono::steady_clock;
  constexpr auto kTime = std::chrono::milliseconds(1);
  const auto began = Steady::now();
  const Ticks first = __rdtsc();
  auto now = began;
  while (now - began < kTime) now = Steady::now();
  const Ticks last = __rdtsc();
  if (last <= first) return;
  const double nanoseconds = static_cast<double>(Duration(now - began).count()) / static_cast<double>(last - first);
  if (nanoseconds >= 2) return;  // no processor is that slow
  multiplier_ = static_cast<uint64_t>(nanoseconds * static_cast<double>(uint64_t{1} << kShift));
  counts_cycles_ = true;
#endif
}

}  // namespace penstock::metrics
