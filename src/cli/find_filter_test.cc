#include "cli/find_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace penstock::cli {
namespace {

constexpr int64_t kSearchTime = 1'000'000'000;

client::Entry EntryOf(std::string name, uint64_t size = 0, int64_t age = 0) {
  client::Attributes attributes;
  attributes.size = size;
  attributes.owner = "ann";
  attributes.group = "staff";
  attributes.modified = {kSearchTime - age, 0};
  return {std::move(name), attributes};
}

TEST(FindFilter, AnEmptyFilterMatchesEverything) {
  EXPECT_TRUE(FindFilter().Matches(EntryOf("a"), "a", kSearchTime));
  EXPECT_TRUE(FindFilter().Matches({"a", std::nullopt}, "a", kSearchTime));
}

TEST(FindFilter, OneOfSeveralPatternsMustMatch) {
  FindFilter filter;
  filter.names = {"*.txt", "[ab]?"};
  EXPECT_TRUE(filter.Matches(EntryOf("x.txt"), "d/x.txt", kSearchTime));
  EXPECT_TRUE(filter.Matches(EntryOf("b1"), "b1", kSearchTime));
  EXPECT_FALSE(filter.Matches(EntryOf("X.TXT"), "X.TXT", kSearchTime));
  filter.names.clear();
  filter.names_of_any_case = {"*.txt"};
  EXPECT_TRUE(filter.Matches(EntryOf("X.TXT"), "X.TXT", kSearchTime));
}

TEST(FindFilter, APatternOfAPathCrossesDirectories) {
  FindFilter filter;
  filter.paths = {"a/*/c"};
  EXPECT_TRUE(filter.Matches(EntryOf("c"), "a/b/b/c", kSearchTime));
  EXPECT_FALSE(filter.Matches(EntryOf("c"), "b/a/b/c", kSearchTime));
}

TEST(FindFilter, SizesAreExactUnlessTheyHaveASign) {
  FindFilter filter;
  filter.sizes = {*ParseBound("+1K")};
  EXPECT_FALSE(filter.Matches(EntryOf("a", 1024), "a", kSearchTime));
  EXPECT_TRUE(filter.Matches(EntryOf("a", 1025), "a", kSearchTime));
  filter.sizes.push_back(*ParseBound("-2K"));
  EXPECT_FALSE(filter.Matches(EntryOf("a", 2048), "a", kSearchTime));
  filter.sizes = {*ParseBound("0")};
  EXPECT_TRUE(filter.Matches(EntryOf("a"), "a", kSearchTime));
  EXPECT_FALSE(filter.Matches(EntryOf("a", 1), "a", kSearchTime));
}

TEST(FindFilter, AgesCountWholeDaysAndMinutes) {
  FindFilter filter;
  filter.days = {*ParseBound("1")};
  EXPECT_FALSE(filter.Matches(EntryOf("a", 0, 86399), "a", kSearchTime));
  EXPECT_TRUE(filter.Matches(EntryOf("a", 0, 86400), "a", kSearchTime));
  EXPECT_FALSE(filter.Matches(EntryOf("a", 0, 2 * 86400), "a", kSearchTime));
  filter.days.clear();
  filter.minutes = {*ParseBound("-5")};
  EXPECT_TRUE(filter.Matches(EntryOf("a", 0, 299), "a", kSearchTime));
  EXPECT_FALSE(filter.Matches(EntryOf("a", 0, 300), "a", kSearchTime));
  EXPECT_TRUE(filter.Matches(EntryOf("a", 0, -100), "a", kSearchTime)) << "a time in the future";
}

TEST(FindFilter, ComparesTypesOwnersAndTimes) {
  FindFilter filter;
  filter.types = "dl";
  EXPECT_FALSE(filter.Matches(EntryOf("a"), "a", kSearchTime));
  client::Entry link = EntryOf("a");
  link.attributes->type = client::FileType::kSymlink;
  EXPECT_TRUE(filter.Matches(link, "a", kSearchTime));
  filter = FindFilter();
  filter.owners = {"bob", "ann"};
  filter.groups = {"staff"};
  EXPECT_TRUE(filter.Matches(EntryOf("a"), "a", kSearchTime));
  filter.groups = {"wheel"};
  EXPECT_FALSE(filter.Matches(EntryOf("a"), "a", kSearchTime));
  filter = FindFilter();
  filter.newer_than = client::Time{kSearchTime, 0};
  EXPECT_FALSE(filter.Matches(EntryOf("a"), "a", kSearchTime));
  EXPECT_TRUE(filter.Matches(EntryOf("a", 0, -1), "a", kSearchTime));
}

TEST(FindFilter, AReferralIsADirectory) {
  const client::Entry far{.name = "far", .attributes = std::nullopt, .is_referral = true};
  FindFilter filter;
  filter.types = "d";
  EXPECT_TRUE(filter.Matches(far, "far", kSearchTime));
  filter.types = "f";
  EXPECT_FALSE(filter.Matches(far, "far", kSearchTime));
}

TEST(FindFilter, RejectsOtherBounds) {
  for (const char* text : {"", "+", "-", "+-1", "1x", "++1", "a"}) EXPECT_FALSE(ParseBound(text)) << text;
}

}  // namespace
}  // namespace penstock::cli
