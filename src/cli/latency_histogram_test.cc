#include "cli/latency_histogram.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;

TEST(LatencyHistogram, StoresSmallValuesExactly) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 60; ++i) histogram.Add(std::chrono::nanoseconds(i));
  EXPECT_EQ(histogram.Percentile(0.5), 30ns);
  EXPECT_EQ(histogram.Percentile(1), 60ns);
  EXPECT_EQ(histogram.count(), 60u);
}

TEST(LatencyHistogram, ComputesPercentilesToWithinAFewPerMille) {
  LatencyHistogram histogram;
  for (int64_t i = 1; i <= 100'000; ++i) histogram.Add(std::chrono::nanoseconds(i * 1000));
  for (const double quantile : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = quantile * 1e8;
    EXPECT_GE(static_cast<double>(histogram.Percentile(quantile).count()), exact);
    EXPECT_LE(static_cast<double>(histogram.Percentile(quantile).count()), exact * 1.016);
  }
}

TEST(LatencyHistogram, ReturnsNoPercentileAboveTheLargestValue) {
  LatencyHistogram histogram;
  histogram.Add(1'000'001ns);
  EXPECT_EQ(histogram.Percentile(0.5), 1'000'001ns);
  EXPECT_EQ(histogram.largest(), 1'000'001ns);
}

TEST(LatencyHistogram, AcceptsNegativeAndHugeValues) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Percentile(0.99), 0ns);
  histogram.Add(-1ns);
  histogram.Add(std::chrono::nanoseconds::max());
  EXPECT_EQ(histogram.Percentile(0.5), 0ns);
  EXPECT_EQ(histogram.Percentile(1), std::chrono::nanoseconds::max());
}

}  // namespace
}  // namespace penstock::cli
