#include "rpc/gss/sequence_window.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace penstock::rpc::gss {
namespace {

constexpr uint32_t kSize = SequenceWindow::kSize;

TEST(SequenceWindow, AcceptsEachNumberOnce) {
  SequenceWindow window;
  EXPECT_TRUE(window.Take(0));
  EXPECT_FALSE(window.Take(0));
  EXPECT_TRUE(window.Take(1));
  EXPECT_FALSE(window.Take(1));
  EXPECT_FALSE(window.Take(0));
}

TEST(SequenceWindow, AcceptsAnyFirstNumber) {
  SequenceWindow window;
  EXPECT_TRUE(window.Take(0x7fff'ff00));
  EXPECT_TRUE(window.Take(0x7fff'ff01));
  EXPECT_TRUE(window.Take(0x7fff'fe00)) << "a call that was overtaken";
  EXPECT_FALSE(window.Take(17));
}

TEST(SequenceWindow, AcceptsNumbersInAnyOrderWithinTheWindow) {
  SequenceWindow window;
  for (uint32_t n = kSize; n > 0; --n) EXPECT_TRUE(window.Take(n)) << n;
  for (uint32_t n = 1; n <= kSize; ++n) EXPECT_FALSE(window.Take(n)) << n;
}

TEST(SequenceWindow, RejectsNumbersBelowTheWindow) {
  SequenceWindow window;
  window.Take(5000);
  EXPECT_TRUE(window.IsNew(5000 - kSize + 1)) << "the lowest number within the window";
  EXPECT_FALSE(window.IsNew(5000 - kSize)) << "the first number below the window";
  EXPECT_FALSE(window.IsNew(0));
}

TEST(SequenceWindow, AcceptsSkippedNumbersLater) {
  SequenceWindow window;
  window.Take(10);
  window.Take(20);
  for (uint32_t n = 11; n < 20; ++n) EXPECT_TRUE(window.Take(n)) << n;
  EXPECT_FALSE(window.Take(10));
}

TEST(SequenceWindow, CheckOfANumberDoesNotUseIt) {
  SequenceWindow window;
  window.Take(10);
  EXPECT_TRUE(window.IsNew(1'000'000));
  EXPECT_TRUE(window.IsNew(9));
  EXPECT_TRUE(window.Take(9));
}

// Compares the window with the definition, implemented by a set.
TEST(SequenceWindow, MatchesItsDefinition) {
  std::mt19937 random(1);
  SequenceWindow window;
  std::set<uint32_t> seen;
  uint32_t newest = 100'000;
  for (int i = 0; i < 50'000; ++i) {
    const uint32_t spread = random() % 8 == 0 ? 3 * kSize : 40;
    const uint32_t number = newest - spread + random() % (spread + spread / 2);
    const bool in_range = seen.empty() || number > *seen.rbegin() || *seen.rbegin() - number < kSize;
    const bool expected = in_range && !seen.contains(number);
    EXPECT_EQ(window.IsNew(number), expected) << number;
    ASSERT_EQ(window.Take(number), expected) << number;
    if (expected) seen.insert(number);
    newest = std::max(newest, number);
  }
}

}  // namespace
}  // namespace penstock::rpc::gss
