#include "base/siphash.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

// The authors' own example: key 00 01 ... 0f, text 00 01 ... 0e.
TEST(SipHash, MatchesTheAuthorsTestVector) {
  std::byte text[15];
  for (int i = 0; i < 15; ++i) text[i] = static_cast<std::byte>(i);
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(SipHash(key, text), 0xa129ca6149be45e5u);
}

}  // namespace
}  // namespace penstock
