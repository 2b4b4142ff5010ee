#include "base/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/descriptor_shortage.h"

namespace penstock {
namespace {

// Captures what is logged while it lives.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_));
    logger->set_level(spdlog::level::info);
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogTest() override { spdlog::set_default_logger(before_); }

  std::ostringstream out_;

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(LogTest, FormatsMessagesAtTheirLevels) {
  log::info("{} of {:04x}", std::string("two"), 10);
  log::warn("none");
  log::error("a {{brace}}");
  EXPECT_EQ(out_.str(), "info: two of 000a\nwarning: none\nerror: a {brace}\n");
}

TEST_F(LogTest, LeavesOutMessagesBelowTheLevel) {
  EXPECT_FALSE(log::debugging());
  log::debug("silent");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(LogTest, AShortageOfDescriptorsIsLoggedOnceAMinute) {
  TimePoint now;
  int rooms = 0;
  DescriptorShortage shortage([&] { ++rooms; }, [&] { return now; });
  for (int i = 0; i < 600; ++i, now += std::chrono::milliseconds(200)) shortage.Tell("TCP");
  const std::string line = "warning: cannot accept a connection (TCP): the process has too many open files";
  EXPECT_TRUE(out_.str().starts_with(line)) << out_.str();
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 2) << "two minutes";
  EXPECT_EQ(rooms, 600) << "room is made each time";
}

}  // namespace
}  // namespace penstock
