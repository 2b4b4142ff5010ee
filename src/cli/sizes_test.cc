#include "cli/sizes.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::cli {
namespace {

TEST(Sizes, HumanSizeRoundsUpAsLsDoes) {
  constexpr uint64_t kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024;
  EXPECT_EQ(HumanSize(0), "0");
  EXPECT_EQ(HumanSize(1023), "1023");
  EXPECT_EQ(HumanSize(kKibi), "1.0K");
  EXPECT_EQ(HumanSize(kKibi + 1), "1.1K");
  EXPECT_EQ(HumanSize(4096), "4.0K");
  EXPECT_EQ(HumanSize(10 * kKibi - 1), "10K");
  EXPECT_EQ(HumanSize(10 * kKibi + 1), "11K");
  EXPECT_EQ(HumanSize(kMebi - 1), "1.0M");
  EXPECT_EQ(HumanSize(kMebi), "1.0M");
  EXPECT_EQ(HumanSize(kMebi + 1), "1.1M");
  EXPECT_EQ(HumanSize(1023 * kMebi + 1), "1.0G");
  EXPECT_EQ(HumanSize(123 * kGibi), "123G");
  EXPECT_EQ(HumanSize(std::numeric_limits<uint64_t>::max()), "16E");
}

TEST(Sizes, ParsesUnits) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("12"), 12u);
  EXPECT_EQ(ParseSize("2K"), 2048u);
  EXPECT_EQ(ParseSize("2k"), 2048u);
  EXPECT_EQ(ParseSize("2KiB"), 2048u);
  EXPECT_EQ(ParseSize("2KB"), 2000u);
  EXPECT_EQ(ParseSize("3G"), 3221225472u);
  EXPECT_EQ(ParseSize("15E"), 15ull << 60);
}

TEST(Sizes, RejectsOtherTexts) {
  for (const char* text : {"", "K", "-1", "+1", "1.5M", "1X", "1KX", "1KiBs", " 1", "16E", "18446744073709551616"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
