#include "nfs/v2/cookie_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mix.h"

namespace penstock::nfs::v2 {
namespace {

fs::Identity Directory(std::string_view name) { return {.volume = 1, .object = *fs::Handle::FromBytes(AsBytes(name))}; }

// A cookie of the kind that ext4 has.
fs::Cookie Large(uint64_t n) { return fs::Cookie((Mix(7, n) & ~(uint64_t{1} << 63)) | uint64_t{1} << 40); }

constexpr uint64_t kHost = 5;
using Range = CookieTable::Range;

TEST(CookieTable, ItsNumbersAreInTheirRange) {
  CookieTable table(4, 1000);
  for (uint64_t n = 0; n < 100; ++n) {
    const uint32_t lower = table.NumberOf(kHost, Directory("a"), Large(n), Range::kLower);
    EXPECT_GT(lower, 0u);
    EXPECT_LT(lower, 0x8000'0000);
    EXPECT_GT(table.NumberOf(kHost, Directory("b"), Large(n), Range::kUpper), 0x8000'0000);
  }
}

TEST(CookieTable, FindsEachCookieAgain) {
  CookieTable table(4, 20'000);
  std::vector<uint32_t> numbers;
  for (uint64_t n = 0; n < 10'000; ++n)
    numbers.push_back(table.NumberOf(kHost, Directory("d"), Large(n), Range::kUpper));
  EXPECT_EQ(std::set(numbers.begin(), numbers.end()).size(), numbers.size());
  for (uint64_t n = 0; n < 10'000; ++n) EXPECT_EQ(table.CookieOf(kHost, Directory("d"), numbers[n]), Large(n));
}

TEST(CookieTable, ACookieKeepsItsNumber) {
  CookieTable table(4, 100);
  const uint32_t number = table.NumberOf(kHost, Directory("d"), Large(1), Range::kUpper);
  EXPECT_EQ(table.NumberOf(kHost, Directory("d"), Large(1), Range::kUpper), number);
  CookieTable restarted(4, 100);
  EXPECT_EQ(restarted.CookieOf(kHost, Directory("d"), number), std::nullopt);
  EXPECT_EQ(restarted.NumberOf(kHost, Directory("d"), Large(1), Range::kUpper), number);
  EXPECT_EQ(restarted.CookieOf(kHost, Directory("d"), number), Large(1));
}

// Cookies that have the same hash: the word that Mix() makes of them has the same 31 lowest bits.
TEST(CookieTable, CookiesWithTheSameHashGetDifferentNumbers) {
  const auto hash = [](uint64_t cookie) { return static_cast<uint32_t>(Mix(0, cookie)) | 0x8000'0000; };
  const uint64_t first = uint64_t{1} << 40;
  uint64_t second = first;
  // The multiplication in Mix() can be undone, so a word with the same low bits leads to such a cookie.
  constexpr uint64_t kInverse = 0xf1de'83e1'9937'733du;
  static_assert(kInverse * 0x9e37'79b9'7f4a'7c15u == 1);
  const uint64_t product = first * 0x9e37'79b9'7f4a'7c15u;
  for (uint64_t high = 1; second == first || second < 0x8000'0000; ++high) {
    // Adding a multiple of 2^61 changes only the bits that the hash ignores.
    second = (product + (high << 61)) * kInverse;
    ASSERT_LT(high, 8u);
  }
  ASSERT_EQ(hash(first), hash(second));
  CookieTable table(4, 100);
  const uint32_t one = table.NumberOf(kHost, Directory("d"), fs::Cookie(first), Range::kUpper);
  const uint32_t other = table.NumberOf(kHost, Directory("d"), fs::Cookie(second), Range::kUpper);
  EXPECT_NE(one, other);
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), one), fs::Cookie(first));
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), other), fs::Cookie(second));
}

TEST(CookieTable, ANumberBelongsToOneDirectory) {
  CookieTable table(4, 100);
  const uint32_t number = table.NumberOf(kHost, Directory("a"), Large(1), Range::kUpper);
  EXPECT_EQ(table.CookieOf(kHost, Directory("b"), number), std::nullopt);
  EXPECT_EQ(table.CookieOf(kHost, Directory("a"), number), Large(1));
}

TEST(CookieTable, DoesNotKnowANumberThatItDidNotGive) {
  CookieTable table(4, 100);
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), 0x8000'0000), std::nullopt);
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), 0xffff'ffff), std::nullopt);
  EXPECT_EQ(table.size(), 0u);
}

TEST(CookieTable, ForgetsTheNumbersThatAHostUsedLeastRecently) {
  CookieTable table(4, 100);
  const uint32_t used = table.NumberOf(kHost, Directory("d"), Large(0), Range::kUpper);
  const uint32_t unused = table.NumberOf(kHost, Directory("d"), Large(1), Range::kUpper);
  for (uint64_t n = 2; n < 1000; ++n) {
    table.NumberOf(kHost, Directory("d"), Large(n), Range::kUpper);
    EXPECT_EQ(table.CookieOf(kHost, Directory("d"), used), Large(0));
    EXPECT_LE(table.size(), 100u);
  }
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), unused), std::nullopt);
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), table.NumberOf(kHost, Directory("d"), Large(999), Range::kUpper)),
            Large(999));
}

TEST(CookieTable, AHostLosesNothingToTheListingsOfAnother) {
  CookieTable table(4, 100);
  const uint32_t number = table.NumberOf(kHost, Directory("d"), Large(0), Range::kUpper);
  for (uint64_t n = 1; n < 1000; ++n) table.NumberOf(kHost + 1, Directory("d"), Large(n), Range::kUpper);
  EXPECT_EQ(table.CookieOf(kHost, Directory("d"), number), Large(0));
}

TEST(CookieTable, ForgetsTheHostThatWasSilentLongest) {
  CookieTable table(4, 100);
  std::vector<uint32_t> numbers;
  for (uint64_t host = 0; host < 4; ++host)
    numbers.push_back(table.NumberOf(host, Directory("d"), Large(host), Range::kUpper));
  EXPECT_EQ(table.CookieOf(0, Directory("d"), numbers[0]), Large(0));
  table.NumberOf(4, Directory("d"), Large(4), Range::kUpper);
  EXPECT_EQ(table.CookieOf(0, Directory("d"), numbers[0]), Large(0));
  EXPECT_EQ(table.CookieOf(1, Directory("d"), numbers[1]), std::nullopt);
  EXPECT_EQ(table.size(), 4u);
}

TEST(CookieTable, SupportsConcurrentThreads) {
  CookieTable table(2, 100);
  std::vector<std::jthread> threads;
  for (uint64_t host = 0; host < 4; ++host) {
    threads.emplace_back([&table, host] {
      for (uint64_t n = 0; n < 500; ++n) {
        const uint32_t number = table.NumberOf(host, Directory("d"), Large(n), Range::kUpper);
        const auto found = table.CookieOf(host, Directory("d"), number);
        EXPECT_TRUE(!found || *found == Large(n));
      }
    });
  }
}

}  // namespace
}  // namespace penstock::nfs::v2
