#include "cli/logging.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/log.h"

namespace penstock::cli {
namespace {

using ::testing::MatchesRegex;

// The lines that four messages, one of each level, give on stderr.
std::string LinesAt(unsigned verbosity) {
  testing::internal::CaptureStderr();
  SetUpLogging({.levels = {{.module = {}, .least = LevelFor(verbosity)}}});
  log::debug("one");
  log::info("two {}", 2);
  log::warn("three");
  log::error("four");
  log::SetSink({});
  return testing::internal::GetCapturedStderr();
}

constexpr char kTime[] = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+[.][0-9][0-9][0-9] ";

TEST(Logging, PrintsWarningsAndErrorsByDefault) {
  EXPECT_THAT(LinesAt(0), MatchesRegex(std::string(kTime) + "warning three\n" + kTime + "error four\n"));
}

TEST(Logging, AlsoPrintsInformationWithOneVerboseOption) {
  EXPECT_THAT(LinesAt(1),
              MatchesRegex(std::string(kTime) + "info two 2\n" + kTime + "warning three\n" + kTime + "error four\n"));
}

TEST(Logging, AlsoPrintsDebugMessagesWithTwoOrMoreVerboseOptions) {
  for (const unsigned verbosity : {2u, 3u}) {
    EXPECT_THAT(LinesAt(verbosity), MatchesRegex(std::string(kTime) + "debug one\n" + kTime + "info two 2\n" + kTime +
                                                 "warning three\n" + kTime + "error four\n"));
  }
}

TEST(Logging, PrintsTheMessageAsItIs) {
  testing::internal::CaptureStderr();
  SetUpLogging({});
  log::warn("{}", "100 % of {} and %v");
  log::SetSink({});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex(std::string(kTime) + "warning 100 % of [{][}] and %v\n"));
}

TEST(Logging, ModulesMayHaveLevelsOfTheirOwn) {
  testing::internal::CaptureStderr();
  SetUpLogging(
      {.levels = {{.module = {}, .least = log::Level::kError}, {.module = "cli", .least = log::Level::kInfo}}});
  log::info("of this module");
  log::Write(log::Level::kWarn, log::Named("rpc"), "of another one", log::Fields());
  log::SetSink({});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), MatchesRegex(std::string(kTime) + "info of this module\n"));
}

TEST(Logging, ParsesLevelsWithAndWithoutAModule) {
  const auto all = ParseLogLevel("info");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->module, "");
  EXPECT_EQ(all->least, log::Level::kInfo);
  const auto one = ParseLogLevel("iwarp=debug");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->module, "iwarp");
  EXPECT_EQ(one->least, log::Level::kDebug);
  EXPECT_THAT(ParseLogLevel("loud").error().message, testing::HasSubstr("\"loud\" is not a level"));
  EXPECT_THAT(ParseLogLevel("rpc=").error().message, testing::HasSubstr("\"\" is not a level"));
  EXPECT_THAT(ParseLogLevel("nsf=debug").error().message, testing::HasSubstr("no module \"nsf\"; they are: base, "));
  EXPECT_THAT(ParseLogLevel("=debug").error().message, testing::HasSubstr("no module \"\""));
}

// 2026-11-27 08:09:10.000042 UTC
constexpr int64_t kThen = 1795766950'000042;

TEST(Logging, WritesAnObjectOfJsonWithTheFieldsOfTheMessage) {
  const log::Field fields[] = {{.key = "client", .value = "192.0.2.1"}, {.key = "export", .value = "/a\"b"}};
  const log::Record record{
      .level = log::Level::kWarn, .module = "refusals", .message = "said \"no\"\t\xff", .fields = fields};
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, record, kThen),
            R"({"time":"2026-11-27T08:09:10.000042Z","level":"warning","module":"refusals","message":"said \"no\"\t)"
            "\xEF\xBF\xBD"
            R"(","client":"192.0.2.1","export":"/a\"b"})");
}

TEST(Logging, PutsThePriorityOfTheJournalBeforeTheMessage) {
  const auto line = [](log::Level level) {
    return FormatLogLine(LogFormat::kJournal, {.level = level, .module = "rpc", .message = "text"}, kThen);
  };
  EXPECT_EQ(line(log::Level::kDebug), "<7>text");
  EXPECT_EQ(line(log::Level::kInfo), "<6>text");
  EXPECT_EQ(line(log::Level::kWarn), "<4>text");
  EXPECT_EQ(line(log::Level::kError), "<3>text");
}

TEST(Logging, TheFormatIsThatOfTheJournalIfStderrIsConnectedToIt) {
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(FormatForStderr(), LogFormat::kText);
  struct stat status{};
  ASSERT_EQ(::fstat(STDERR_FILENO, &status), 0);
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", status.st_dev, status.st_ino).c_str(), 1);
  EXPECT_EQ(FormatForStderr(), LogFormat::kJournal);
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", status.st_dev, status.st_ino + 1).c_str(), 1);
  EXPECT_EQ(FormatForStderr(), LogFormat::kText) << "stderr was redirected";
  ::unsetenv("JOURNAL_STREAM");
}

}  // namespace
}  // namespace penstock::cli
