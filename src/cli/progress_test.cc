#include "cli/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;

TEST(ProgressLine, ShowsShareAmountRateAndRemainingTime) {
  EXPECT_EQ(ProgressLine(512 << 20, 1 << 30, 2s, 79),
            " 50 % [#################                 ]  512 MiB of 1.0 GiB  256 MiB/s  0:02");
}

TEST(ProgressLine, ShowsAFullBarAtTheEnd) {
  EXPECT_EQ(ProgressLine(10, 10, 1s, 60), "100 % [########################]  10 B of 10 B  10 B/s  0:00");
}

TEST(ProgressLine, ShowsAnEmptyFileAsDone) { EXPECT_TRUE(ProgressLine(0, 0, 0s, 60).starts_with("100 %")); }

TEST(ProgressLine, FitsANarrowTerminal) {
  for (unsigned width = 0; width < 80; ++width) {
    EXPECT_LE(ProgressLine(uint64_t{3} << 40, uint64_t{9} << 40, 100s, width).size(), width);
  }
}

TEST(ProgressLine, StaysAtTheEndIfMoreIsDoneThanTheTotal) {
  EXPECT_EQ(ProgressLine(20, 10, 1s, 60), "100 % [########################]  20 B of 10 B  20 B/s  0:00");
}

TEST(ProgressLine, ShowsNoRateAndNoRemainingTimeAtTheStart) {
  EXPECT_EQ(ProgressLine(0, 1 << 20, 0s, 40), "  0 % 0 B of 1.0 MiB  0 B/s  0:00");
}

TEST(ProgressLine, ShowsAnAmountInTheLargestUnitThatItReaches) {
  const auto amount = [](uint64_t total) {
    const std::string line = ProgressLine(0, total, 0s, 40);
    const size_t begin = line.find("of ") + 3;
    return line.substr(begin, line.find("  ", begin) - begin);
  };
  EXPECT_EQ(amount(1023), "1023 B");
  EXPECT_EQ(amount(1024), "1.0 KiB");
  EXPECT_EQ(amount(99 * 1024 + 512), "99.5 KiB");
  EXPECT_EQ(amount(100 * 1024), "100 KiB");
  EXPECT_EQ(amount(1 << 20), "1.0 MiB");
  EXPECT_EQ(amount(uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(amount(uint64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(amount(uint64_t{8} << 60), "8192 PiB");
}

TEST(ProgressLine, ShowsARemainingTimeOfMoreThanAnHourInMinutes) {
  EXPECT_EQ(ProgressLine(1, 6002, 1s, 40), "  0 % 1 B of 5.9 KiB  1 B/s  100:01");
}

}  // namespace
}  // namespace penstock::cli
