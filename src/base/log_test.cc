#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor_shortage.h"
#include "base/test_log.h"

namespace penstock {
namespace {

TEST(LogTest, FormatsMessagesAtTheirLevels) {
  const CapturedLog captured;
  log::info("{} of {:04x}", std::string("two"), 10);
  log::warn("none");
  log::error("a {{brace}}");
  EXPECT_EQ(captured.text(), "info: two of 000a\nwarning: none\nerror: a {brace}\n");
}

TEST(LogTest, LeavesOutMessagesBelowTheLevel) {
  const CapturedLog captured;
  EXPECT_FALSE(log::debugging());
  log::debug("silent");
  EXPECT_EQ(captured.text(), "");
}

TEST(LogTest, WritesNothingWithoutASink) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log::error("dropped");
  {
    const CapturedLog captured;
  }
  log::error("dropped as well");
  EXPECT_FALSE(log::debugging());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LogTest, TellsTheSinkTheLevelOfEachMessage) {
  std::vector<std::pair<log::Level, std::string>> messages;
  log::SetSink([&](log::Level level, std::string_view message) { messages.emplace_back(level, message); },
               log::Level::kDebug);
  EXPECT_TRUE(log::debugging());
  log::debug("one");
  log::error("two {}", 2);
  log::SetSink({});
  log::error("three");
  const std::vector<std::pair<log::Level, std::string>> expected{{log::Level::kDebug, "one"},
                                                                 {log::Level::kError, "two 2"}};
  EXPECT_EQ(messages, expected);
}

TEST(LogTest, LogsAShortageOfDescriptorsOnceAMinute) {
  const CapturedLog captured;
  TimePoint now;
  int rooms = 0;
  DescriptorShortage shortage([&] { ++rooms; }, [&] { return now; });
  for (int i = 0; i < 600; ++i, now += std::chrono::milliseconds(200)) shortage.Tell("TCP");
  const std::string line = "warning: cannot accept a connection (TCP): the process has too many open files";
  EXPECT_TRUE(captured.text().starts_with(line)) << captured.text();
  EXPECT_EQ(std::ranges::count(captured.text(), '\n'), 2) << "two minutes";
  EXPECT_EQ(rooms, 600) << "make_room is called each time";
}

}  // namespace
}  // namespace penstock
