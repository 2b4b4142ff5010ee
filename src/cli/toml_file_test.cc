#include "cli/toml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TomlContent Parse(std::string text) { return ParseToml({.name = "f.toml", .text = std::move(text)}); }

// "path:line" of each entry.
std::vector<std::string> EntriesOf(const TomlContent& content) {
  std::vector<std::string> entries;
  for (const TomlEntry& entry : content.entries) {
    std::string path;
    for (const std::string& each : entry.path) path += (path.empty() ? "" : ".") + each;
    entries.push_back(path + ":" + std::to_string(entry.line));
  }
  return entries;
}

std::vector<size_t> LinesOf(const TomlContent& content) {
  std::vector<size_t> lines;
  for (const Finding& each : content.mistakes) lines.push_back(each.line);
  return lines;
}

TEST(TomlFile, FindsEachEntryWithItsLine) {
  const TomlContent content = Parse("# comment\n[a]\nx = 1\ny = [\"p\",\n  \"q\"]\n\n[b]\nz = true\n");
  EXPECT_THAT(content.mistakes, IsEmpty());
  EXPECT_THAT(EntriesOf(content), ElementsAre("a:2", "a.x:3", "a.y:4", "b:7", "b.z:8"));
  EXPECT_EQ(content.entries[1].values[0].text, "1");
  EXPECT_EQ(content.entries[2].kind, TomlEntry::Kind::kArray);
  EXPECT_EQ(content.entries[2].values[1].text, "q");
  EXPECT_EQ(content.entries[2].values[1].line, 5u);
  EXPECT_EQ(content.entries[4].values[0].type, TomlValue::Type::kBoolean);
}

TEST(TomlFile, FindsAllSyntaxErrorsInOneRun) {
  const TomlContent content = Parse("[a]\nx = \ny = 1\nz == 2\nw = 3\nw = 4\nv = \"open\nu = 5\n");
  EXPECT_THAT(LinesOf(content), ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(EntriesOf(content), ElementsAre("a:1", "a.u:8", "a.w:5", "a.y:3"));
  EXPECT_THAT(content.mistakes[2].message, HasSubstr("redefine"));
}

TEST(TomlFile, KeysBelowAWrongHeaderBelongToNoOtherTable) {
  const TomlContent content = Parse("[a]\nx = 1\n[b\nx = 2\n[a]\nx = 3\n[c]\ny = 4\n");
  EXPECT_THAT(LinesOf(content), ElementsAre(3, 5));
  EXPECT_THAT(EntriesOf(content), ElementsAre("a:1", "a.x:2", "c:7", "c.y:8"));
}

TEST(TomlFile, NamesTheBeginningOfWhatIsNotClosed) {
  const TomlContent content = Parse("a = 1\nb = [1,\n2\n\nc = 3\n");
  ASSERT_EQ(content.mistakes.size(), 1u);
  EXPECT_EQ(content.mistakes[0].line, 2u);
  const TomlContent string = Parse("a = 1\nb = \"\"\"x\ny\nz");
  EXPECT_THAT(LinesOf(string), ElementsAre(2));
  EXPECT_THAT(EntriesOf(string), ElementsAre("a:1"));
}

TEST(TomlFile, EndsAtAHundredMistakes) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "x y\n";
  EXPECT_EQ(Parse(text).mistakes.size(), 100u);
}

// Octets that occur in TOML are likely, so that the parser gets further than to the first one.
// The behaviour of the parser is undefined for some of them.
TEST(TomlFile, ReportsCharactersBeyondAsciiOutsideOfStrings) {
  const TomlContent content = Parse(
      "a = 'caf\xc3\xa9' # caf\xc3\xa9\nb = 1 \xef\xb8\x80\nc = 2\n[caf\xc3\xa9]\nd = 3\ne = "
      "\"\"\"\\\n\xef\xb8\x80\"\"\"\n");
  ASSERT_EQ(content.mistakes.size(), 3u);
  EXPECT_EQ(content.mistakes[0].line, 2u);
  EXPECT_EQ(content.mistakes[1].line, 4u);
  EXPECT_EQ(content.mistakes[2].line, 6u);
  ASSERT_EQ(content.entries.size(), 2u);
  EXPECT_EQ(content.entries[0].values[0].text, "caf\xc3\xa9");
  EXPECT_EQ(content.entries[1].path, std::vector<std::string>{"c"});
}

TEST(TomlFile, SurvivesGarbage) {
  std::mt19937 random(1);
  const std::string pieces[] = {
      "[",          "]",           "[[",     "]]",  "=",  "\n",  "a",     ".",
      "\"",         "'",           "\"\"\"", "'''", "\\", "#",   "1",     "true",
      "1979-05-27", "{",           "}",      ",",   " ",  "\r",  "\\u",   "\xc3\xa9",
      "\xff",       "x = 1\n",     "-",      "e5",  "0x", "inf", "[a]\n", std::string(1, '\0'),
      "\x7f",       "\xef\xbb\xbf"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const size_t length = random() % 40;
    for (size_t i = 0; i < length; ++i) {
      const size_t choice = random() % (std::size(pieces) + 2);
      text += choice < std::size(pieces) ? pieces[choice] : std::string(1, static_cast<char>(random()));
    }
    const TomlContent content = Parse(text);
    const size_t lines = 1 + static_cast<size_t>(std::ranges::count(text, '\n'));
    EXPECT_LE(content.mistakes.size(), lines + 1) << testing::PrintToString(text);
    for (const Finding& each : content.mistakes) {
      EXPECT_EQ(each.message.find('\n'), std::string::npos);
      EXPECT_LE(each.line, lines + 1);
    }
  }
}

TEST(TomlFile, SurvivesDeepNesting) {
  EXPECT_FALSE(Parse("a = " + std::string(100000, '[')).mistakes.empty());
  std::string tables = "a";
  for (int i = 0; i < 20000; ++i) tables += ".a";
  EXPECT_FALSE(Parse(tables + " = 1").mistakes.empty());
  EXPECT_FALSE(Parse("[" + tables + "]").mistakes.empty());
}

TEST(TomlFile, QuotesTextsSoThatTheyCanBeReadAgain) {
  for (const std::string text : {"", "plain", "\"quoted\" \\ back", "line\nbreak\ttab", "\x01\x1f\x7f",
                                 "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"}) {
    const TomlContent content = Parse("x = " + TomlString(text));
    ASSERT_EQ(content.entries.size(), 1u) << text;
    EXPECT_EQ(content.entries[0].values[0].text, text);
  }
  EXPECT_EQ(TomlString("a\xff\xe2\x82"), "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(TomlFile, ReadsOnlyRegularFilesOfAtMostOneMegabyte) {
  const std::filesystem::path folder = testing::TempDir() + "toml_file_test." + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string file = folder / "f.toml";
  const auto missing = ReadConfigFile(file);
  ASSERT_FALSE(missing);
  EXPECT_EQ(ToString(missing.error()), file + ": cannot read: No such file or directory");
  EXPECT_THAT(ReadConfigFile(folder).error().message, HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadConfigFile(folder / "fifo").error().message, HasSubstr("not a regular file"));
  std::ofstream(file) << std::string(1 << 20, '#');
  ASSERT_TRUE(ReadConfigFile(file));
  EXPECT_EQ(ReadConfigFile(file)->text.size(), size_t{1} << 20);
  std::ofstream(file, std::ios::app) << "#";
  EXPECT_THAT(ReadConfigFile(file).error().message, HasSubstr("longer than 1 MiB"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::cli
