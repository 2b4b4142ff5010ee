#include "fs/posix/creator_mark.h"

#include <gtest/gtest.h>

namespace penstock::fs::posix {
namespace {

constexpr TimePoint kStart{std::chrono::hours(5)};
constexpr auto kLong = CreatorMark::kLasts + std::chrono::seconds(1);

TEST(CreatorMark, AdmitsTheCreatorAlone) {
  CreatorMark mark;
  EXPECT_FALSE(mark.Admits(1000, kStart, false));
  EXPECT_FALSE(mark.Admits(0, kStart, false));
  mark.Set(1000, kStart);
  EXPECT_TRUE(mark.Admits(1000, kStart, false));
  EXPECT_FALSE(mark.Admits(1001, kStart, false));
  EXPECT_FALSE(mark.Admits(0, kStart, false));
}

TEST(CreatorMark, EndsWhenTheCreatorLeavesTheObjectAlone) {
  CreatorMark mark;
  mark.Set(1000, kStart);
  EXPECT_TRUE(mark.Admits(1000, kStart + CreatorMark::kLasts, false));  // begins the time again
  EXPECT_TRUE(mark.Admits(1000, kStart + CreatorMark::kLasts * 2, false));
  EXPECT_FALSE(mark.Admits(1000, kStart + CreatorMark::kLasts * 2 + kLong, false));
}

TEST(CreatorMark, LastsWhileTheObjectIsOpen) {
  CreatorMark mark;
  mark.Set(1000, kStart);
  EXPECT_TRUE(mark.Admits(1000, kStart + kLong, true));
  EXPECT_TRUE(mark.Admits(1000, kStart + kLong, false));
}

// Another thread may have read the clock later, and renewed the mark first.
TEST(CreatorMark, AdmitsACheckThatComesLate) {
  CreatorMark mark;
  mark.Set(1000, kStart + std::chrono::seconds(2));
  EXPECT_TRUE(mark.Admits(1000, kStart, false));
}

}  // namespace
}  // namespace penstock::fs::posix
