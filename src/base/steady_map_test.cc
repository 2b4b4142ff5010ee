#include "base/steady_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(SteadyMap, DoesWhatAMapDoes) {
  SteadyMap<uint64_t, uint64_t> map;
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t key = random() % 3000 * 4096;  // keys whose low bits are the same
    switch (random() % 4) {
      case 0:
        EXPECT_EQ(map.erase(key), model.erase(key));
        break;
      case 1:
        map[key] = i;
        model[key] = i;
        break;
      case 2:
        EXPECT_EQ(map.emplace(key, uint64_t{7}).second, model.emplace(key, 7).second);
        break;
      default:
        EXPECT_EQ(map.contains(key), model.contains(key));
        break;
    }
    ASSERT_EQ(map.size(), model.size());
  }
  for (const auto& [key, value] : model) {
    const auto at = map.find(key);
    ASSERT_NE(at, map.end()) << key;
    EXPECT_EQ(at->second, value);
  }
  EXPECT_EQ(std::ranges::distance(map.begin(), map.end()), static_cast<std::ptrdiff_t>(model.size()));
}

TEST(SteadyMap, ItsOrderIsThatOfInsertion) {
  SteadyMap<int, char> map;
  for (int i = 0; i < 5; ++i) map.emplace(100 - i, static_cast<char>('a' + i));
  map.erase(98);
  map.emplace(98, 'z');
  EXPECT_THAT(map, ElementsAre(Pair(100, 'a'), Pair(99, 'b'), Pair(97, 'd'), Pair(96, 'e'), Pair(98, 'z')));
}

TEST(SteadyMap, ReferencesStayValidWhileItGrowsAndOthersAreErased) {
  SteadyMap<int, int> map;
  int& first = map[0];
  const auto at = map.find(0);
  for (int i = 1; i < 10'000; ++i) map[i] = i;
  for (int i = 1; i < 10'000; ++i) map.erase(i);
  EXPECT_EQ(&map.find(0)->second, &first);
  EXPECT_EQ(&at->second, &first);
}

TEST(SteadyMap, ErasesWhileItIsIterated) {
  SteadyMap<int, int> map;
  for (int i = 0; i < 100; ++i) map[i] = i;
  for (auto at = map.begin(); at != map.end();) at = at->first % 2 ? map.erase(at) : std::next(at);
  EXPECT_EQ(map.size(), 50u);
  EXPECT_TRUE(std::ranges::all_of(map, [](const auto& each) { return each.first % 2 == 0; }));
}

struct TextHash {
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

TEST(SteadyMap, FindsKeysByWhatIsEqualToThem) {
  SteadyMap<std::string, std::unique_ptr<int>, TextHash> map;
  map["one"] = std::make_unique<int>(1);
  EXPECT_EQ(*map.find(std::string_view("one"))->second, 1);
  EXPECT_EQ(map.find(std::string_view("two")), map.end());
  EXPECT_EQ(map.erase(std::string_view("one")), 1u);
  EXPECT_TRUE(map.empty());
}

TEST(SteadyMap, KeepsWhatIsThere) {
  SteadyMap<int, std::string> map;
  EXPECT_TRUE(map.try_emplace(1, "first").second);
  const auto [at, is_new] = map.try_emplace(1, "second");
  EXPECT_FALSE(is_new);
  EXPECT_EQ(at->second, "first");
}

TEST(SteadyMap, IsUsableAfterItWasCleared) {
  SteadyMap<int, std::shared_ptr<int>> map;
  const auto value = std::make_shared<int>(0);
  for (int i = 0; i < 1000; ++i) map[i] = value;
  map.clear();
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(map.find(1), map.end());
  map[1] = value;
  EXPECT_EQ(map.size(), 1u);
}

TEST(SteadyMap, NoInsertionMovesMoreThanOneBucket) {
  SteadyMap<int, int> map;
  size_t most = 0;
  for (int i = 0; i < 100'000; ++i) {
    const size_t before = map.divided();
    map[i] = i;
    most = std::max(most, map.divided() - before);
  }
  EXPECT_LT(most, 20u);
  EXPECT_GT(map.divided(), 50'000u) << "the table grows with its items";
}

}  // namespace
}  // namespace penstock
