#include "base/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

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

}  // namespace
}  // namespace penstock
