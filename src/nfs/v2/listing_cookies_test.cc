#include "nfs/v2/listing_cookies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace penstock::nfs::v2 {
namespace {

using testing::ElementsAre;

class ListingCookiesTest : public testing::Test {
 protected:
  ListingCookies Listing(bool positional = true) { return {table_, 5, directory_, positional}; }
  // Returns the numbers of a listing that begins at `number`.
  std::vector<uint32_t> Numbers(uint32_t number, const std::vector<uint64_t>& cookies) {
    ListingCookies listing = Listing();
    EXPECT_TRUE(listing.Start(number));
    std::vector<uint32_t> numbers;
    for (const uint64_t cookie : cookies) numbers.push_back(listing.Next(fs::Cookie(cookie)).value_or(0));
    return numbers;
  }
  std::optional<uint64_t> Start(uint32_t number, bool positional = true) {
    const auto cookie = Listing(positional).Start(number);
    if (!cookie) return std::nullopt;
    return cookie->value();
  }
  static uint64_t At(uint64_t upper, uint64_t lower) { return upper << 32 | lower; }

  const fs::Identity directory_{.volume = 1, .object = *fs::Handle::FromBytes(AsBytes("d"))};
  CookieTable table_{4, 100};
};

TEST_F(ListingCookiesTest, KeepsCookiesOf31Bits) {
  EXPECT_THAT(Numbers(0, {1, 2, 0x7fff'ffff}), ElementsAre(1, 2, 0x7fff'ffff));
  EXPECT_EQ(Start(0), 0u);
  EXPECT_EQ(Start(2), 2u);
  EXPECT_EQ(Start(0x7fff'ffff), 0x7fff'ffffu);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ListingCookiesTest, APositionKeepsItsUpperBits) {
  EXPECT_THAT(Numbers(0, {At(1, 0), At(2, 7), At(0x7fff'ffff, 0xffff'ffff)}),
              ElementsAre(0x8000'0001, 0x8000'0002, 0xffff'ffff));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(Start(0x8000'0002), At(2, 0));
  EXPECT_EQ(Start(0xffff'ffff), At(0x7fff'ffff, 0));
}

// The entry before the second cookie is at the position (2, 7). Continuing at (2, 0) would list it again.
TEST_F(ListingCookiesTest, AnEntryWithTheSameUpperBitsAsTheNextGetsANumberOfTheTable) {
  const auto numbers = Numbers(0, {At(2, 7), At(2, 9), At(3, 0)});
  EXPECT_EQ(numbers[0], 0x8000'0002);
  EXPECT_LT(numbers[1], 0x8000'0000);
  EXPECT_EQ(numbers[2], 0x8000'0003);
  EXPECT_EQ(Start(numbers[1]), At(2, 9));
}

// Its own position may be anywhere after the place where the client continues.
TEST_F(ListingCookiesTest, TheFirstEntryOfALaterReplyGetsANumberOfTheTable) {
  const auto numbers = Numbers(0x8000'0002, {At(3, 0), At(4, 0)});
  EXPECT_LT(numbers[0], 0x8000'0000);
  EXPECT_EQ(numbers[1], 0x8000'0004);
  EXPECT_EQ(Start(numbers[0]), At(3, 0));
  const auto after = Numbers(numbers[0], {At(5, 0), At(6, 0)});
  EXPECT_LT(after[0], 0x8000'0000);
  EXPECT_EQ(after[1], 0x8000'0006);
}

TEST_F(ListingCookiesTest, AForgottenNumberOfAPositionIsDetected) {
  ListingCookies listing = Listing();
  EXPECT_EQ(listing.Start(12345)->value(), 12345u);
  EXPECT_FALSE(listing.Next(fs::Cookie(At(1, 0))));
  ListingCookies small = Listing();
  EXPECT_TRUE(small.Start(12345));
  EXPECT_EQ(small.Next(fs::Cookie(12346)), 12346u);
}

// Their order is unknown, so only the table can lead back to them.
TEST_F(ListingCookiesTest, OtherCookiesGetNumbersOfTheTable) {
  ListingCookies listing = Listing(false);
  EXPECT_TRUE(listing.Start(0));
  const auto number = listing.Next(fs::Cookie(At(2, 7)));
  ASSERT_TRUE(number);
  EXPECT_GE(*number, 0x8000'0000);
  EXPECT_EQ(Start(*number, false), At(2, 7));
  EXPECT_EQ(Start(*number ^ 1, false), std::nullopt);
  EXPECT_EQ(Start(2, false), 2u);
}

// 64 bits do not fit into 31 bits and the rest.
TEST_F(ListingCookiesTest, ACookieOf64BitsGetsANumberOfTheTable) {
  const auto numbers = Numbers(0, {At(0xffff'ffff, 1), At(0, 0x8000'0000)});
  EXPECT_EQ(Start(numbers[0]), At(0xffff'ffff, 1));
  EXPECT_EQ(Start(numbers[1]), 0x8000'0000u);
}

}  // namespace
}  // namespace penstock::nfs::v2
