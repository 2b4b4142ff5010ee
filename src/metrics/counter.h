// Counters that cost next to nothing where they are counted. Readers on other threads see each value whole; values of
// several counters may be of slightly different times.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/timer.h"

namespace penstock::metrics {

// Only one thread at a time adds, the loop that owns the counter: an addition is a plain load and a plain store,
// without a lock prefix. Any thread reads. Counters of different loops belong into different cache lines.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// What a counter of times adds: they are sums of nanoseconds.
constexpr uint64_t NanosecondsOf(Duration duration) {
  return static_cast<uint64_t>(std::max<Duration::rep>(duration.count(), 0));
}

// Any thread adds. For events that are rare: connections, callbacks.
class SharedCounter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Subtract(uint64_t n = 1) { value_.fetch_sub(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace penstock::metrics
