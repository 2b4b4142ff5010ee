#include "base/texts.h"

#include <gtest/gtest.h>

#include <array>

namespace penstock {
namespace {

TEST(Texts, OctetsAreHexadecimalDigitsInSmallLetters) {
  constexpr std::array kOctets = {std::byte{0x00}, std::byte{0x0a}, std::byte{0xff}};
  EXPECT_EQ(Hexadecimal(kOctets), "000aff");
  EXPECT_EQ(Hexadecimal({}), "");
}

TEST(Texts, HexadecimalDigitsAreOctetsAgain) {
  std::array<std::byte, 3> octets{};
  EXPECT_TRUE(FromHexadecimal("000aFf", octets));
  EXPECT_EQ(octets, (std::array{std::byte{0x00}, std::byte{0x0a}, std::byte{0xff}}));
  for (const char* wrong : {"", "000af", "000affa", "000a-1", "000a+1", "000a f", "000afg", "0x0aff"}) {
    EXPECT_FALSE(FromHexadecimal(wrong, octets)) << wrong;
  }
  EXPECT_TRUE(FromHexadecimal("", {}));
}

TEST(Texts, ATimeIsInUtcWithMicroseconds) {
  EXPECT_EQ(UtcText(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(UtcText(1'795'767'243'000'417), "2026-11-27T08:14:03.000417Z");
}

}  // namespace
}  // namespace penstock
