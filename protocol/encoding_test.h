// The fixture of tests that compare encoded values with octets in hexadecimal.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock {

class EncodingTest : public ::testing::Test {
 protected:
  // Checks that `value` is encoded as `hex`, and that these octets are decoded as `value`.
  template <class T>
  void ExpectEncoding(const T& value, const std::string& hex) {
    EXPECT_EQ(xdr::testing::EncodedHex(pool_, value), hex);
    const xdr::Message bytes = xdr::Message::Whole(xdr::testing::Octets(pool_, hex));
    EXPECT_EQ(xdr::DecodeWhole<T>(bytes), value);
  }
  BufferPool pool_;
};

}  // namespace penstock
