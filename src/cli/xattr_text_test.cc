#include "cli/xattr_text.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace penstock::cli {
namespace {

TEST(XattrText, EachEncodingReadsWhatItWrites) {
  for (const std::string& value :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("quotes \" and \\"),
        std::string("\0\x01\xff\n", 4), std::string("gr\u00fc\u00df")}) {
    for (const char* const encoding : {"", "text", "hex", "base64"}) {
      const std::string text = XattrText(AsBytes(value), encoding);
      EXPECT_EQ(ParseXattr(text), value) << text;
    }
  }
}

TEST(XattrText, ChoosesTextForPrintableOctets) {
  EXPECT_EQ(XattrText(AsBytes("blue"), ""), "\"blue\"");
  EXPECT_EQ(XattrText(AsBytes("a\nb"), ""), "0sYQpi");
  EXPECT_EQ(XattrText(AsBytes("a\nb"), "text"), "\"a\\012b\"");
  EXPECT_EQ(XattrText(AsBytes("a\nb"), "hex"), "0x610a62");
}

TEST(XattrText, ATextWithoutQuotesStandsForItself) {
  EXPECT_EQ(ParseXattr("blue \\ \""), "blue \\ \"");
  EXPECT_EQ(ParseXattr("0X4a4B"), "JK");
}

TEST(XattrText, RejectsMalformedDigits) {
  for (const char* text : {"0x1", "0xgg", "0sA", "0sAAA!", "0sA===", "\"a\"b\"", "\"a\\\"", "\"\\09\"", "\"\\777\""}) {
    EXPECT_EQ(ParseXattr(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
