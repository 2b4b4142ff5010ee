#include "base/address_text.h"

#include <gtest/gtest.h>

#include <asio/ip/address.hpp>

namespace penstock {
namespace {

TEST(AddressTextTest, WritesWhatItParses) {
  for (const char* const text : {"192.0.2.7:2049", "0.0.0.0:0", "[2001:db8::1]:20049", "[::]:65535"}) {
    const auto address = ParseSocketAddress(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(ToText(*address), text);
  }
}

TEST(AddressTextTest, RejectsOtherTexts) {
  for (const char* const text : {"", ":", "192.0.2.7", "192.0.2.7:", "192.0.2.7:65536", "192.0.2.7:1x", "192.0.2.7:-1",
                                 "2001:db8::1:2049", "[2001:db8::1]", "[192.0.2.7]:1", "[]:1", "server:2049"}) {
    EXPECT_FALSE(ParseSocketAddress(text)) << text;
  }
}

}  // namespace
}  // namespace penstock
