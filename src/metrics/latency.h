// A histogram of durations with fixed buckets, in steps of 1, 2 and 5 from 10 us to 10 s.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/timer.h"
#include "metrics/counter.h"

namespace penstock::metrics {

inline constexpr size_t kLatencyBounds = 19;
// The upper bounds of the buckets, which belong to their buckets. The last bucket has no bound.
inline constexpr std::array<int64_t, kLatencyBounds> kLatencyNanoseconds = [] {
  std::array<int64_t, kLatencyBounds> bounds{};
  int64_t decade = 10'000;
  for (size_t i = 0; i < kLatencyBounds; ++i) {
    constexpr int64_t kSteps[] = {1, 2, 5};
    bounds[i] = decade * kSteps[i % 3];
    if (i % 3 == 2) decade *= 10;
  }
  return bounds;
}();
static_assert(kLatencyNanoseconds.back() == 10'000'000'000);

// Returns the index of the bucket for a duration.
constexpr size_t LatencyBucket(int64_t nanoseconds) {
  // The first bucket that can hold a number of so many bits.
  constexpr auto kFirst = [] {
    std::array<uint8_t, 65> first{};
    for (size_t width = 0; width < first.size(); ++width) {
      const uint64_t least = width == 0 ? 0 : uint64_t{1} << (width - 1);
      while (first[width] < kLatencyBounds && static_cast<uint64_t>(kLatencyNanoseconds[first[width]]) < least) {
        ++first[width];
      }
    }
    return first;
  }();
  size_t bucket = kFirst[std::bit_width(static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0)))];
  while (bucket < kLatencyBounds && nanoseconds > kLatencyNanoseconds[bucket]) ++bucket;
  return bucket;
}

// The counts of a histogram, as values.
struct LatencyCounts {
  std::array<uint64_t, kLatencyBounds + 1> buckets{};  // not cumulative
  uint64_t nanoseconds = 0;

  uint64_t count() const {
    uint64_t sum = 0;
    for (const uint64_t each : buckets) sum += each;
    return sum;
  }
  LatencyCounts& operator+=(const LatencyCounts& other) {
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
    nanoseconds += other.nanoseconds;
    return *this;
  }
};

// One thread records, as for Counter. Any thread reads.
class LatencyHistogram {
 public:
  void Record(Duration duration) {
    buckets_[LatencyBucket(duration.count())].Add();
    nanoseconds_.Add(NanosecondsOf(duration));
  }
  LatencyCounts Read() const {
    LatencyCounts counts;
    for (size_t i = 0; i < buckets_.size(); ++i) counts.buckets[i] = buckets_[i].value();
    counts.nanoseconds = nanoseconds_.value();
    return counts;
  }

 private:
  Counter nanoseconds_;  // in a cache line with the buckets that most operations fall into
  std::array<Counter, kLatencyBounds + 1> buckets_;
};

}  // namespace penstock::metrics
