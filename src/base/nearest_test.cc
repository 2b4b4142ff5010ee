#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string_view>

namespace penstock {
namespace {

constexpr std::string_view kWords[] = {"ls", "cat", "mkdir", "rmdir", "resvport", "noresvport"};

TEST(Nearest, CountsLettersToInsertRemoveAndReplace) {
  EXPECT_EQ(Distance("", ""), 0u);
  EXPECT_EQ(Distance("", "abc"), 3u);
  EXPECT_EQ(Distance("mkdir", "mkdri"), 2u);
  EXPECT_EQ(Distance("rmdir", "mkdir"), 2u);
}

TEST(Nearest, FindsTheWordThatDiffersInFewLetters) {
  EXPECT_EQ(Nearest("mkdit", kWords), "mkdir");
  EXPECT_EQ(Nearest("resport", kWords), "resvport");
  EXPECT_EQ(Nearest("rmdir", kWords), "rmdir");
}

TEST(Nearest, FindsNothingForAnotherWord) {
  EXPECT_EQ(Nearest("mount", kWords), "");
  EXPECT_EQ(Nearest("du", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest("mkdir", {}), "");
}

}  // namespace
}  // namespace penstock
