#include "idmap/answer_cache.h"

#include <gtest/gtest.h>

#include "idmap/test_database.h"

namespace penstock::idmap {
namespace {

AnswerCache::Entry Some(std::string name, uint32_t id) {
  return {.account = Account{.name = std::move(name), .id = id}, .until = {}};
}
AnswerCache::Entry None() { return {.account = {}, .until = {}}; }

TEST(AnswerCache, KeepsEachKindAndDirectionApart) {
  AnswerCache cache(4, 4);
  cache.Keep(ById(7), Some("anna", 7));
  cache.Keep(ById(7, Kind::kGroup), Some("staff", 7));
  cache.Keep(ByName("7"), None());
  EXPECT_EQ(cache.Find(ById(7))->account->name, "anna");
  EXPECT_EQ(cache.Find(ById(7, Kind::kGroup))->account->name, "staff");
  EXPECT_FALSE(cache.Find(ByName("7"))->account);
  EXPECT_EQ(cache.Find(ByName("7", Kind::kGroup)), nullptr);
}

TEST(AnswerCache, ForgetsTheLeastRecentlyUsed) {
  AnswerCache cache(2, 2);
  cache.Keep(ById(1), Some("one", 1));
  cache.Keep(ById(2), Some("two", 2));
  EXPECT_NE(cache.Find(ById(1)), nullptr);
  cache.Keep(ById(3), Some("three", 3));
  EXPECT_NE(cache.Find(ById(1)), nullptr);
  EXPECT_EQ(cache.Find(ById(2)), nullptr);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(AnswerCache, UnknownNamesDoNotDisplaceAccounts) {
  AnswerCache cache(2, 3);
  cache.Keep(ByName("anna"), Some("anna", 7));
  for (int i = 0; i < 100; ++i) cache.Keep(ByName("unknown" + std::to_string(i)), None());
  EXPECT_NE(cache.Find(ByName("anna")), nullptr);
  EXPECT_NE(cache.Find(ByName("unknown99")), nullptr);
  EXPECT_EQ(cache.Find(ByName("unknown96")), nullptr);
  EXPECT_EQ(cache.size(), 4u);
}

TEST(AnswerCache, ReplacesAnAnswer) {
  AnswerCache cache(2, 2);
  cache.Keep(ByName("anna"), None());
  cache.Keep(ByName("anna"), Some("anna", 7));
  EXPECT_TRUE(cache.Find(ByName("anna"))->account);
  cache.Keep(ByName("anna"), None());
  EXPECT_FALSE(cache.Find(ByName("anna"))->account);
  EXPECT_EQ(cache.size(), 1u);
}

}  // namespace
}  // namespace penstock::idmap
