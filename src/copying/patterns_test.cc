#include "copying/patterns.h"

#include <gtest/gtest.h>

namespace penstock::copying {
namespace {

TEST(PatternsTest, MatchesLikeAShell) {
  EXPECT_TRUE(Matches("*.iso", "a.iso"));
  EXPECT_TRUE(Matches("*.iso", ".iso"));
  EXPECT_FALSE(Matches("*.iso", "a.iso.gz"));
  EXPECT_FALSE(Matches("*.iso", "d/a.iso")) << "a star does not cross a slash";
  EXPECT_TRUE(Matches("a?c", "abc"));
  EXPECT_FALSE(Matches("a?c", "a/c"));
  EXPECT_TRUE(Matches("[a-c]x", "bx"));
  EXPECT_FALSE(Matches("[!a-c]x", "bx"));
  EXPECT_TRUE(Matches("[!a-c]x", "dx"));
  EXPECT_TRUE(Matches("[]a]", "]"));
  EXPECT_TRUE(Matches("[a-]", "-"));
  EXPECT_TRUE(Matches("[", "[")) << "a set without an end is an ordinary octet";
  EXPECT_TRUE(Matches("\\*", "*"));
  EXPECT_FALSE(Matches("\\*", "a"));
  EXPECT_TRUE(Matches("", ""));
  EXPECT_FALSE(Matches("", "a"));
  EXPECT_FALSE(Matches("a", ""));
  EXPECT_TRUE(Matches("*a*b*c", "xxaxbxbxxc"));
  EXPECT_FALSE(Matches("*a*b*c", "xxaxbxbxx"));
}

TEST(PatternsTest, TwoStarsCrossSlashes) {
  EXPECT_TRUE(Matches("a/**", "a/b/c"));
  EXPECT_TRUE(Matches("**/c", "a/b/c"));
  EXPECT_TRUE(Matches("**/c", "c"));
  EXPECT_TRUE(Matches("a/**/c", "a/c"));
  EXPECT_TRUE(Matches("a/**/c", "a/b/b/c"));
  EXPECT_FALSE(Matches("a/**/c", "a/bc"));
  EXPECT_TRUE(Matches("**/*.o", "x/y.c/z.o"));
  EXPECT_FALSE(Matches("**/*.o", "x/y.o/z"));
}

TEST(PatternsTest, TheFirstRuleThatMatchesDecides) {
  Filter filter;
  EXPECT_TRUE(filter.Includes("a", false));
  filter.Add(true, "keep.o");
  filter.Add(false, "*.o");
  filter.Add(false, "cache/");
  filter.Add(false, "/top");
  filter.Add(false, "a/b");
  EXPECT_TRUE(filter.Includes("d/keep.o", false));
  EXPECT_FALSE(filter.Includes("d/other.o", false));
  EXPECT_FALSE(filter.Includes("d/cache", true));
  EXPECT_TRUE(filter.Includes("d/cache", false)) << "the pattern is for directories";
  EXPECT_FALSE(filter.Includes("top", false));
  EXPECT_TRUE(filter.Includes("d/top", false));
  EXPECT_FALSE(filter.Includes("a/b", false));
  EXPECT_TRUE(filter.Includes("c/a/b", false));
}

}  // namespace
}  // namespace penstock::copying
