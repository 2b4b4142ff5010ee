#include "metrics/latency.h"

#include <gtest/gtest.h>

namespace penstock::metrics {
namespace {

using namespace std::chrono_literals;

TEST(LatencyTest, BoundsAreStepsOfOneTwoFive) {
  EXPECT_EQ(kLatencyNanoseconds[0], 10'000);
  EXPECT_EQ(kLatencyNanoseconds[1], 20'000);
  EXPECT_EQ(kLatencyNanoseconds[2], 50'000);
  EXPECT_EQ(kLatencyNanoseconds[3], 100'000);
  EXPECT_EQ(kLatencyNanoseconds[18], 10'000'000'000);
}

TEST(LatencyTest, ABoundBelongsToItsBucket) {
  for (size_t i = 0; i < kLatencyBounds; ++i) {
    EXPECT_EQ(LatencyBucket(kLatencyNanoseconds[i]), i);
    EXPECT_EQ(LatencyBucket(kLatencyNanoseconds[i] + 1), i + 1);
  }
  EXPECT_EQ(LatencyBucket(0), 0u);
  EXPECT_EQ(LatencyBucket(-1), 0u);
  EXPECT_EQ(LatencyBucket(INT64_MAX), kLatencyBounds);
}

// Compares the table by bit widths with a plain search.
TEST(LatencyTest, FindsTheSameBucketAsASearch) {
  for (int64_t value = 1; value < 40'000'000'000; value = value * 17 / 16 + 1) {
    const auto found = std::ranges::lower_bound(kLatencyNanoseconds, value);
    EXPECT_EQ(LatencyBucket(value), static_cast<size_t>(found - kLatencyNanoseconds.begin())) << value;
  }
}

TEST(LatencyTest, AddsUpCountsAndTime) {
  LatencyHistogram histogram;
  histogram.Record(5us);
  histogram.Record(15us);
  histogram.Record(15us);
  histogram.Record(20s);
  LatencyCounts counts = histogram.Read();
  EXPECT_EQ(counts.buckets[0], 1u);
  EXPECT_EQ(counts.buckets[1], 2u);
  EXPECT_EQ(counts.buckets[kLatencyBounds], 1u);
  EXPECT_EQ(counts.count(), 4u);
  EXPECT_EQ(counts.nanoseconds, 20'000'035'000u);
  counts += histogram.Read();
  EXPECT_EQ(counts.count(), 8u);
}

}  // namespace
}  // namespace penstock::metrics
