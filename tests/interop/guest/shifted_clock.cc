// Preloaded into a program whose clock is to be wrong. The time of day is PENSTOCK_CLOCK_SHIFT seconds ahead.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

namespace {

time_t Shift() {
  static const time_t shift = [] {
    const char* const text = getenv("PENSTOCK_CLOCK_SHIFT");
    return text == nullptr ? time_t{0} : static_cast<time_t>(atol(text));
  }();
  return shift;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto system_clock_gettime =
      reinterpret_cast<decltype(&clock_gettime)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = system_clock_gettime(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += Shift();
  return result;
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise;
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  if (result == 0) *now = {.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* now) noexcept {
  timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}
