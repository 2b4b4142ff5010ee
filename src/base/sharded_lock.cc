#include "base/sharded_lock.h"

#include <algorithm>

namespace penstock {
namespace {

// Tells the processor that the thread waits for another one.
inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// The lock is held for less than a microsecond as a rule, while to sleep and to wake take tens of them. A thread that
// sleeps in LockAll() would hold its lower parts meanwhile, and all others would wait for it. So it first tries for a
// few microseconds, ever more rarely, because each attempt takes the cache line from the holder. Then it sleeps,
// because the holder may have no processor.
std::chrono::nanoseconds ShardedLock::Wait(std::mutex& mutex) {
  constexpr int kMostPauses = 64;
  const auto began = std::chrono::steady_clock::now();
  bool locked = false;
  for (int pauses = 1; !locked && pauses <= kMostPauses; pauses *= 2) {
    for (int i = 0; i < pauses; ++i) Relax();
    locked = mutex.try_lock();
  }
  if (!locked) mutex.lock();
  return std::max(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began), std::chrono::nanoseconds(1));
}

void ShardedLock::Tally::AddTo(Waits& sum) const {
  sum.taken += taken.load(std::memory_order_relaxed);
  sum.waited += waited.load(std::memory_order_relaxed);
  sum.time += std::chrono::nanoseconds(time.load(std::memory_order_relaxed));
}

ShardedLock::Counts ShardedLock::counts() const {
  Counts counts;
  for (const Part& part : std::span<const Part>(parts_.get(), count_)) part.tally.AddTo(counts.one);
  all_tally_.AddTo(counts.all);
  return counts;
}

}  // namespace penstock
