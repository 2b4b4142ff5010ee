#include "base/utf8.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Utf8Test, AcceptsOneEncodingOfEachCharacter) {
  for (const std::string_view text : {"", "abc", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                      "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "x\xc3\xa4y"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const std::string_view text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe1\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ok\xe1\x80x"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Utf8, ReplacesInvalidOctets) {
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
  EXPECT_EQ(ReplaceInvalidUtf8("/caf\xc3\xa9"), "/caf\xc3\xa9");
  EXPECT_EQ(ReplaceInvalidUtf8("/caf\xe9/x"), "/caf\xef\xbf\xbd/x");
  EXPECT_EQ(ReplaceInvalidUtf8("\xff\xfe"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace penstock
