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

// Four days after the time of File().
constexpr int64_t kListTime = 1'000'345'600;
const ListFormat kShortList{.now = kListTime};
const ListFormat kLongList{.long_format = true, .now = kListTime};

std::string LongLine(const client::Entry& entry) { return ListLine(entry, kLongList, ColumnsFor({entry}, kLongList)); }

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
    return LongLine(entry).substr(0, 10);
  }
  // The column of the time in the long format.
 private:
  std::optional<std::string> before_;
};

TEST_F(ListLineTest, TheShortFormatIsTheName) {
  EXPECT_EQ(ListLine(File("a file"), kShortList), "a file");
  EXPECT_EQ(ListLine({"a file", std::nullopt}, kShortList), "a file");
}

TEST_F(ListLineTest, TheLongFormatShowsTheAttributesInColumns) {
  EXPECT_EQ(LongLine(File("a file")), "-rw-r--r-- 1 1000 100 4096 Sep  9 01:46 a file");
}

TEST_F(ListLineTest, TheLongFormatNamesAnEntryWithoutAttributes) {
  const std::vector<client::Entry> entries{{"secret\n", std::nullopt}, File("other?")};
  const ListColumns columns = ColumnsFor(entries, kLongList);
  EXPECT_EQ(ListLine(entries[0], kLongList, columns), "?????????? ? ?    ?      ?            ? secret?");
  EXPECT_EQ(ListLine(entries[1], kLongList, columns), "-rw-r--r-- 1 1000 100 4096 Sep  9 01:46 other?");
}

TEST_F(ListLineTest, ShowsAReferralAsADirectory) {
  const client::Entry entry{.name = "far", .attributes = std::nullopt, .is_referral = true};
  EXPECT_TRUE(LongLine(entry).starts_with("d????????? "));
  EXPECT_EQ(ListLine(entry, kShortList), "far");
}

TEST_F(ListLineTest, ReplacesEachControlCharacterOfAName) {
  const std::string name = std::string("\x1b[31mred\r\n\t\x7f\x01", 12) + '\0' + "end";
  EXPECT_EQ(ListLine(File(name), kShortList), "?[31mred?????end");
  EXPECT_TRUE(LongLine(File(name)).ends_with(" ?[31mred?????end"));
}

// Some terminals treat U+009B as ESC [.
TEST_F(ListLineTest, ReplacesEachControlCharacterBeyondAscii) {
  EXPECT_EQ(ListLine(File("\u0080a\u009b2J\u009f\u00a0"), kShortList), "?a?2J?\u00a0");
}

TEST_F(ListLineTest, ReplacesEachOctetThatIsNotAsciiIfANameIsNotUtf8) {
  EXPECT_EQ(ListLine(File("gr\xf6\xdf\x9b"), kShortList), "gr???");
  EXPECT_EQ(ListLine(File("\xc2"), kShortList), "?");
}

TEST_F(ListLineTest, KeepsNamesInUtf8AndSpaces) {
  EXPECT_EQ(ListLine(File("gr\u00f6\u00dfe  \u65e5\u672c ~"), kShortList), "gr\u00f6\u00dfe  \u65e5\u672c ~");
}

TEST_F(ListLineTest, ReplacesControlCharactersOfOwnerAndGroup) {
  client::Entry entry = File("file");
  entry.attributes->owner = "\x1b[2Jann";
  entry.attributes->group = "all\n";
  EXPECT_EQ(LongLine(entry), "-rw-r--r-- 1 ?[2Jann all? 4096 Sep  9 01:46 file");
}

TEST_F(ListLineTest, DoesNotShortenValuesThatAreWiderThanTheirColumns) {
  client::Entry entry = File(std::string(255, 'n'));
  entry.attributes->links = std::numeric_limits<uint32_t>::max();
  entry.attributes->owner = "somebody@example.org";
  entry.attributes->group = "everybody@example.org";
  entry.attributes->size = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(LongLine(entry),
            "-rw-r--r-- 4294967295 somebody@example.org everybody@example.org 18446744073709551615 "
            "Sep  9 01:46 " +
                std::string(255, 'n'));
  EXPECT_EQ(ListLine(entry, kShortList), std::string(255, 'n'));
}

TEST_F(ListLineTest, NamesInColumnsThatFitAllOwners) {
  std::vector<client::Entry> entries{File("one"), File("two"), {"three", std::nullopt}};
  entries[0].attributes->owner = "somebody";
  entries[1].attributes->owner = "gr\u00fcner";
  entries[1].attributes->group = "everybody";
  const ListColumns columns = ColumnsFor(entries, kLongList);
  EXPECT_EQ(ListLine(entries[0], kLongList, columns), "-rw-r--r-- 1 somebody 100       4096 Sep  9 01:46 one");
  EXPECT_EQ(ListLine(entries[1], kLongList, columns), "-rw-r--r-- 1 gr\u00fcner   everybody 4096 Sep  9 01:46 two");
  EXPECT_EQ(ListLine(entries[2], kLongList, columns).find("three"),
            ListLine(entries[0], kLongList, columns).find("one"));
}

// A server must not fill the screen with spaces.
TEST_F(ListLineTest, AVeryLongOwnerDoesNotWidenItsColumn) {
  std::vector<client::Entry> entries{File("one")};
  entries[0].attributes->owner = std::string(10000, 'o');
  EXPECT_EQ(ColumnsFor(entries, kLongList).owner, 0u);
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

TEST_F(ListLineTest, PrintsExactNamesOnRequest) {
  ListFormat exact = kShortList;
  exact.printable = false;
  EXPECT_EQ(ListLine(File("a\nb\xff"), exact), "a\nb\xff");
}

TEST_F(ListLineTest, ShowsTheTargetOfALink) {
  client::Entry link = File("link");
  link.attributes->type = FileType::kSymlink;
  EXPECT_EQ(ListLine(link, kLongList, ColumnsFor({link}, kLongList), "a\tb"),
            "lrw-r--r-- 1 1000 100 4096 Sep  9 01:46 link -> a?b");
}

TEST_F(ListLineTest, ShowsTheNumbersOfADeviceInPlaceOfItsSize) {
  client::Entry device = File("device");
  device.attributes->type = FileType::kBlockDevice;
  device.attributes->device_major = 8;
  device.attributes->device_minor = 17;
  EXPECT_EQ(LongLine(device), "brw-r--r-- 1 1000 100 8, 17 Sep  9 01:46 device");
}

TEST_F(ListLineTest, ShowsFileNumbersUnitsAndClasses) {
  client::Entry program = File("program");
  program.attributes->mode = 0755;
  program.attributes->file_id = 77;
  program.attributes->size = 1536;
  const ListFormat format{.long_format = true, .file_ids = true, .human = true, .classify = true, .now = kListTime};
  EXPECT_EQ(ListLine(program, format, ColumnsFor({program}, format)),
            "77 -rwxr-xr-x 1 1000 100 1.5K Sep  9 01:46 program*");
  program.attributes->type = FileType::kDirectory;
  EXPECT_EQ(ListLine(program, {.classify = true}), "program/");
}

TEST_F(ListLineTest, ShowsTheTimeInTheLocalTimeZone) {
  EXPECT_EQ(TimeText(0, 100), "Jan  1 00:00");
  SetZone("EAST-9");
  EXPECT_EQ(TimeText(0, 100), "Jan  1 09:00");
  EXPECT_EQ(FullTimeText({0, 5}), "1970-01-01 09:00:00.000000005 +0900");
  SetZone("WEST+5:30");
  EXPECT_EQ(TimeText(0, 100), "Dec 31 18:30");
}

TEST_F(ListLineTest, ShowsTheYearOfOldAndFutureTimes) {
  constexpr int64_t kDay = 86400;
  EXPECT_EQ(TimeText(kListTime - 182 * kDay, kListTime), "Mar 15 01:46");
  EXPECT_EQ(TimeText(kListTime - 183 * kDay, kListTime), "Mar 14  2001");
  EXPECT_EQ(TimeText(kListTime + 1, kListTime), "Sep 13  2001");
  EXPECT_EQ(TimeText(-1, kListTime), "Dec 31  1969");
  EXPECT_EQ(TimeText(int64_t{1} << 32, kListTime), "Feb  7  2106");
}

// NFSv4 has 64 bits for seconds.
TEST_F(ListLineTest, ShowsSecondsIfTheCalendarHasNoSuchYear) {
  for (const int64_t seconds :
       {int64_t{1} << 61, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(TimeText(seconds, kListTime), std::to_string(seconds));
  }
  constexpr int64_t kEnd = 67767976233532799;  // of the last year of std::tm
  EXPECT_EQ(TimeText(kEnd, kListTime), "Dec 31 2147483647");
}

}  // namespace
}  // namespace penstock::cli
