#include "fuse/file_system.h"

#include <gtest/gtest.h>

namespace penstock::fuse {
namespace {

TEST(LongestName, IsThatOfTheServerButNoLongerThanThoseOfLinux) {
  EXPECT_EQ(LongestName({.longest_name = 143}), 143u);
  EXPECT_EQ(LongestName({.longest_name = 1024}), 255u);
}

}  // namespace
}  // namespace penstock::fuse
