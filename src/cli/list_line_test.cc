#include "cli/list_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::cli {
namespace {

using client::FileType;

// The tests set the local time zone, and restore it at the end.
class ListLineTest : public testing::Test {
 protected:
  ListLineTest() {
    if (const char* const zone = ::getenv("TZ")) before_ = zone;
    SetZone("UTC0");
  }
  ~ListLineTest() override {
    if (before_) {
      SetZone(before_->c_str());
    } else {
      ::unsetenv("TZ");
      ::tzset();
    }
  }

  static void SetZone(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  static client::Entry File(std::string name) {
    client::Attributes attributes;
    attributes.mode = 0644;
    attributes.owner = "1000";
    attributes.group = "100";
    attributes.size = 4096;
    attributes.modified.seconds = 1'000'000'000;
    return {std::move(name), attributes};
  }
  // The first column of the long format.
  static std::string ModeOf(FileType type, uint32_t mode) {
    client::Entry entry = File("name");
    entry.attributes->type = type;
    entry.attributes->mode = mode;
    return ListLine(entry, true).substr(0, 10);
  }
  // The column of the time in the long format.
  static std::string TimeOf(int64_t modified) {
    client::Entry entry = File("name");
    entry.attributes->modified.seconds = modified;
    const std::string line = ListLine(entry, true);
    return line.substr(line.size() - std::string("1970-01-01 00:00 name").size(), 16);
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(ListLineTest, TheShortFormatIsTheName) {
  EXPECT_EQ(ListLine(File("a file"), false), "a file");
  EXPECT_EQ(ListLine({"a file", std::nullopt}, false), "a file");
}

TEST_F(ListLineTest, TheLongFormatShowsTheAttributesInColumns) {
  EXPECT_EQ(ListLine(File("a file"), true), "-rw-r--r--   1  1000   100         4096 2001-09-09 01:46 a file");
}

TEST_F(ListLineTest, TheLongFormatNamesAnEntryWithoutAttributes) {
  const std::string line = ListLine({"secret\n", std::nullopt}, true);
  EXPECT_TRUE(line.starts_with("?????????? ")) << line;
  EXPECT_TRUE(line.ends_with(" secret?")) << line;
  const std::string other = ListLine(File("secret?"), true);
  EXPECT_EQ(line.size(), other.size()) << "the names are not in the same column";
}

TEST_F(ListLineTest, ShowsAReferralAsADirectory) {
  const client::Entry entry{.name = "far", .attributes = std::nullopt, .is_referral = true};
  EXPECT_TRUE(ListLine(entry, true).starts_with("d????????? "));
  EXPECT_EQ(ListLine(entry, false), "far");
}

TEST_F(ListLineTest, ReplacesEachControlCharacterOfAName) {
  const std::string name = std::string("\x1b[31mred\r\n\t\x7f\x01", 12) + '\0' + "end";
  EXPECT_EQ(ListLine(File(name), false), "?[31mred?????end");
  EXPECT_TRUE(ListLine(File(name), true).ends_with(" ?[31mred?????end"));
}

// Some terminals treat U+009B as ESC [.
TEST_F(ListLineTest, ReplacesEachControlCharacterBeyondAscii) {
  EXPECT_EQ(ListLine(File("\u0080a\u009b2J\u009f\u00a0"), false), "?a?2J?\u00a0");
}

TEST_F(ListLineTest, ReplacesEachOctetThatIsNotAsciiIfANameIsNotUtf8) {
  EXPECT_EQ(ListLine(File("gr\xf6\xdf\x9b"), false), "gr???");
  EXPECT_EQ(ListLine(File("\xc2"), false), "?");
}

TEST_F(ListLineTest, KeepsNamesInUtf8AndSpaces) {
  EXPECT_EQ(ListLine(File("gr\u00f6\u00dfe  \u65e5\u672c ~"), false), "gr\u00f6\u00dfe  \u65e5\u672c ~");
}

TEST_F(ListLineTest, ReplacesControlCharactersOfOwnerAndGroup) {
  client::Entry entry = File("file");
  entry.attributes->owner = "\x1b[2Jann";
  entry.attributes->group = "all\n";
  EXPECT_EQ(ListLine(entry, true), "-rw-r--r--   1 ?[2Jann  all?         4096 2001-09-09 01:46 file");
}

TEST_F(ListLineTest, DoesNotShortenValuesThatAreWiderThanTheirColumns) {
  client::Entry entry = File(std::string(255, 'n'));
  entry.attributes->links = std::numeric_limits<uint32_t>::max();
  entry.attributes->owner = "somebody@example.org";
  entry.attributes->group = "everybody@example.org";
  entry.attributes->size = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(ListLine(entry, true),
            "-rw-r--r-- 4294967295 somebody@example.org everybody@example.org 18446744073709551615 "
            "2001-09-09 01:46 " +
                std::string(255, 'n'));
  EXPECT_EQ(ListLine(entry, false), std::string(255, 'n'));
}

TEST_F(ListLineTest, NamesInColumnsThatFitAllOwners) {
  std::vector<client::Entry> entries{File("one"), File("two"), {"three", std::nullopt}};
  entries[0].attributes->owner = "somebody";
  entries[1].attributes->owner = "gr\u00fcner";
  entries[1].attributes->group = "everybody";
  const ListColumns columns = ColumnsFor(entries);
  EXPECT_EQ(ListLine(entries[0], true, columns), "-rw-r--r--   1 somebody       100         4096 2001-09-09 01:46 one");
  EXPECT_EQ(ListLine(entries[1], true, columns),
            "-rw-r--r--   1   gr\u00fcner everybody         4096 2001-09-09 01:46 two");
  EXPECT_EQ(ListLine(entries[2], true, columns).find("three"), ListLine(entries[0], true, columns).find("one"));
}

// A server must not fill the screen with spaces.
TEST_F(ListLineTest, AVeryLongOwnerDoesNotWidenItsColumn) {
  std::vector<client::Entry> entries{File("one")};
  entries[0].attributes->owner = std::string(10000, 'o');
  EXPECT_EQ(ColumnsFor(entries).owner, ListColumns().owner);
}

TEST_F(ListLineTest, ShowsEachTypeByItsLetter) {
  EXPECT_EQ(ModeOf(FileType::kRegular, 0), "----------");
  EXPECT_EQ(ModeOf(FileType::kDirectory, 0755), "drwxr-xr-x");
  EXPECT_EQ(ModeOf(FileType::kSymlink, 0777), "lrwxrwxrwx");
  EXPECT_EQ(ModeOf(FileType::kBlockDevice, 0640), "brw-r-----");
  EXPECT_EQ(ModeOf(FileType::kCharacterDevice, 0421), "cr---w---x");
  EXPECT_EQ(ModeOf(FileType::kFifo, 0124), "p--x-w-r--");
  EXPECT_EQ(ModeOf(FileType::kSocket, 0777), "srwxrwxrwx");
  EXPECT_EQ(ModeOf(FileType::kOther, 0), "?---------");
}

TEST_F(ListLineTest, ShowsSpecialModeBitsInsteadOfTheExecuteBits) {
  EXPECT_EQ(ModeOf(FileType::kRegular, 04755), "-rwsr-xr-x");
  EXPECT_EQ(ModeOf(FileType::kRegular, 04644), "-rwSr--r--");
  EXPECT_EQ(ModeOf(FileType::kRegular, 02755), "-rwxr-sr-x");
  EXPECT_EQ(ModeOf(FileType::kRegular, 02745), "-rwxr-Sr-x");
  EXPECT_EQ(ModeOf(FileType::kDirectory, 01777), "drwxrwxrwt");
  EXPECT_EQ(ModeOf(FileType::kDirectory, 01776), "drwxrwxrwT");
  EXPECT_EQ(ModeOf(FileType::kRegular, 07000), "---S--S--T");
}

TEST_F(ListLineTest, ShowsTheTimeInTheLocalTimeZone) {
  EXPECT_EQ(TimeOf(0), "1970-01-01 00:00");
  SetZone("EAST-9");
  EXPECT_EQ(TimeOf(0), "1970-01-01 09:00");
  SetZone("WEST+5:30");
  EXPECT_EQ(TimeOf(0), "1969-12-31 18:30");
}

TEST_F(ListLineTest, ShowsTimesBefore1970AndAfter2038) {
  EXPECT_EQ(TimeOf(-1), "1969-12-31 23:59");
  EXPECT_EQ(TimeOf(int64_t{1} << 32), "2106-02-07 06:28");
}

// NFSv4 has 64 bits for seconds.
TEST_F(ListLineTest, ShowsSecondsIfTheCalendarHasNoSuchYear) {
  for (const int64_t seconds :
       {int64_t{1} << 61, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    client::Entry entry = File("file");
    entry.attributes->modified.seconds = seconds;
    EXPECT_THAT(ListLine(entry, true), testing::EndsWith(" " + std::to_string(seconds) + " file"));
  }
  client::Entry last = File("file");
  last.attributes->modified.seconds = 67767976233532799;  // the end of the last year of std::tm
  EXPECT_THAT(ListLine(last, true), testing::EndsWith("-12-31 23:59 file"));
}

}  // namespace
}  // namespace penstock::cli
