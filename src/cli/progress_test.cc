#include "cli/progress.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock::cli
