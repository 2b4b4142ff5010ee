// A library for LD_PRELOAD: the monotonic clock of the process is 64 times slower, about as slow as valgrind makes the
// process itself. So a limit of microseconds stops the server after as many calls as it does without valgrind
// (LoopTurn). For bench/costs only: timers come late, and a wait for a condition with a time limit ends early.
#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSlower = 64;

std::atomic<int64_t> first = 0;  // the first reading, in nanoseconds

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto original = reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = original(clock, time);
  if (result != 0 || clock != CLOCK_MONOTONIC) return result;
  const int64_t now = time->tv_sec * kSecond + time->tv_nsec;
  int64_t begin = 0;
  if (first.compare_exchange_strong(begin, now)) begin = now;
  const int64_t slow = begin + (now - begin) / kSlower;
  time->tv_sec = slow / kSecond;
  time->tv_nsec = slow % kSecond;
  return 0;
}
