#include "cli/dates.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace penstock::cli {
namespace {

client::Time ParsedDate(std::string_view text) { return ParseDate(text).value_or(client::Time{-1, 1}); }

TEST(Dates, ParsesSecondsSince1970) {
  EXPECT_EQ(ParsedDate("@0"), (client::Time{0, 0}));
  EXPECT_EQ(ParsedDate("@1000000000.5"), (client::Time{1'000'000'000, 500'000'000}));
  EXPECT_EQ(ParsedDate("@-1"), (client::Time{-1, 0}));
}

TEST(Dates, ParsesDatesWithAZone) {
  EXPECT_EQ(ParsedDate("2001-09-09 01:46:40Z"), (client::Time{1'000'000'000, 0}));
  EXPECT_EQ(ParsedDate("2001-09-09T03:46:40.123456789+02:00"), (client::Time{1'000'000'000, 123'456'789}));
  EXPECT_EQ(ParsedDate("2001-09-08 21:16 -0430"), (client::Time{999'999'960, 0}));
}

TEST(Dates, ParsesLocalTime) {
  const char* const before = ::getenv("TZ");
  const std::string zone = before ? before : "";
  ::setenv("TZ", "EAST-9", 1);
  ::tzset();
  EXPECT_EQ(ParsedDate("1970-01-02"), (client::Time{54000, 0}));
  EXPECT_EQ(ParsedDate("1970-01-01 09:00:01"), (client::Time{1, 0}));
  before ? ::setenv("TZ", zone.c_str(), 1) : ::unsetenv("TZ");
  ::tzset();
}

TEST(Dates, RejectsOtherTexts) {
  for (const char* text :
       {"", "@", "@1.", "@x", "@-1.5", "yesterday", "2001-9-9", "2001-13-01", "2001-02-30", "2001-09-09 1:46",
        "2001-09-09 24:00", "2001-09-09 01:46:40.", "2001-09-09 01:46+2", "2001-09-09 01:46 x"}) {
    EXPECT_FALSE(ParseDate(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
