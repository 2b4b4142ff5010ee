#include "metrics/clock.h"

#include <gtest/gtest.h>

namespace penstock::metrics {
namespace {

TEST(ClockTest, AgreesWithTheSystemsClock) {
  const Clock clock;
  const auto began = std::chrono::steady_clock::now();
  const Ticks first = clock.Now();
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(20)) {
  }
  const auto ends = std::chrono::steady_clock::now();
  const Ticks last = clock.Now();
  const auto ended = std::chrono::steady_clock::now();
  const Duration between = clock.Between(first, last);
  // The comparison at the start may have been interrupted by other processes, so it is not exact.
  EXPECT_GE(between, (ends - begun) * 9 / 10);
  EXPECT_LE(between, (ended - began) * 11 / 10);
}

TEST(ClockTest, TimeDoesNotGoBackwards) {
  const Clock clock;
  EXPECT_EQ(clock.Between(10, 10), Duration::zero());
  EXPECT_EQ(clock.Between(10, 9), Duration::zero());
}

TEST(ClockTest, TakesLongTimes) {
  const Clock clock;
  const Duration most = clock.Between(0, UINT64_MAX);
  EXPECT_GT(most, std::chrono::minutes(20));
  EXPECT_EQ(clock.Between(0, UINT64_MAX / 2), most);
}

}  // namespace
}  // namespace penstock::metrics
