#include "base/rare_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RareVectorTest, TakesOnePointer) { EXPECT_EQ(sizeof(RareVector<std::string>), sizeof(void*)); }

TEST(RareVectorTest, IsEmptyAtFirst) {
  const RareVector<int> none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.capacity(), 0u);
  EXPECT_THAT(none, IsEmpty());
  EXPECT_TRUE(std::span(none).empty());
}

TEST(RareVectorTest, KeepsElementsInOrder) {
  RareVector<std::unique_ptr<int>> numbers;
  numbers.reserve(2);
  EXPECT_TRUE(numbers.empty());
  numbers.push_back(std::make_unique<int>(1));
  EXPECT_EQ(*numbers.emplace_back(std::make_unique<int>(2)), 2);
  EXPECT_EQ(numbers.size(), 2u);
  EXPECT_EQ(*numbers.front(), 1);
  EXPECT_EQ(*numbers.back(), 2);
  EXPECT_EQ(*numbers[1], 2);
}

TEST(RareVectorTest, IsEmptyAfterItWasMovedFrom) {
  RareVector<std::string> from{"one", "two"};
  const RareVector<std::string> to = std::move(from);
  EXPECT_THAT(to, ElementsAre("one", "two"));
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): it promises so
}

TEST(RareVectorTest, CopiesAreIndependent) {
  RareVector<std::string> words{"one"};
  RareVector<std::string> copy = words;
  copy.push_back("two");
  EXPECT_THAT(words, ElementsAre("one"));
  EXPECT_THAT(copy, ElementsAre("one", "two"));
  copy = RareVector<std::string>();
  EXPECT_TRUE(copy.empty());
}

TEST(RareVectorTest, ResizeAndClear) {
  RareVector<int> numbers;
  numbers.resize(0);
  EXPECT_TRUE(numbers.empty());
  numbers.resize(3);
  EXPECT_THAT(numbers, ElementsAre(0, 0, 0));
  numbers.resize(1);
  EXPECT_THAT(numbers, ElementsAre(0));
  numbers.clear();
  EXPECT_TRUE(numbers.empty());
}

}  // namespace
}  // namespace penstock
