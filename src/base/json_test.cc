#include "base/json.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(QuoteJson, EscapesWhatAStringMayNotContain) {
  EXPECT_EQ(QuoteJson(""), R"("")");
  EXPECT_EQ(QuoteJson(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(QuoteJson("one\ntwo\t\x7f"), R"("one\ntwo\u0009\u007f")");
  EXPECT_EQ(QuoteJson(std::string_view("\0", 1)), R"("\u0000")");
}

// A page may put the text into its document.
TEST(QuoteJson, EscapesMarkup) { EXPECT_EQ(QuoteJson("</script>"), "\"\\u003c/script>\""); }

TEST(QuoteJson, ReplacesOctetsThatAreNotUtf8) {
  EXPECT_EQ(QuoteJson("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(QuoteJson("caf\xe9<"), "\"caf\xef\xbf\xbd\\u003c\"");
}

}  // namespace
}  // namespace penstock
