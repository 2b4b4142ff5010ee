#include "cli/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"

namespace penstock::cli {
namespace {

using ::testing::MatchesRegex;

// The lines that four messages, one of each level, give on stderr.
std::string LinesAt(unsigned verbosity) {
  testing::internal::CaptureStderr();
  SetUpLogging(verbosity);
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
  SetUpLogging(0);
  log::warn("{}", "100 % of {} and %v");
  log::SetSink({});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex(std::string(kTime) + "warning 100 % of [{][}] and %v\n"));
}

}  // namespace
}  // namespace penstock::cli
