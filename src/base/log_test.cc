#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
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
  EXPECT_FALSE(log::debugging(log::ModuleHere()));
  log::debug("silent");
  EXPECT_EQ(captured.text(), "");
}

// Collects the messages of a logger.
struct LoggedHere {
  std::string text;
  std::shared_ptr<log::Logger> logger;
  explicit LoggedHere(log::Level least)
      : logger(std::make_shared<log::Logger>(
            [this](const log::Record& record) { text.append(record.message).append("\n"); }, least)) {}
};

TEST(LogTest, MessagesOfAThreadWithALoggerGoThereOnly) {
  const CapturedLog captured;
  LoggedHere here(log::Level::kWarn);
  {
    const log::ThreadLoggerScope scope(here.logger);
    log::info("below the level of the logger");
    log::warn("to the logger");
    std::thread([] { log::warn("of another thread"); }).join();
  }
  log::warn("to the process");
  EXPECT_EQ(here.text, "to the logger\n");
  EXPECT_EQ(captured.text(), "warning: of another thread\nwarning: to the process\n");
}

TEST(LogTest, EachLoggerHasALevelOfItsOwn) {
  const CapturedLog captured;
  LoggedHere chatty(log::Level::kDebug), quiet(log::Level::kError);
  log::debug("below the level of the process");
  {
    const log::ThreadLoggerScope scope(chatty.logger);
    EXPECT_TRUE(log::debugging(log::ModuleHere()));
    log::debug("one");
    chatty.logger->SetLevel(log::Level::kWarn);
    EXPECT_FALSE(log::debugging(log::ModuleHere()));
    log::debug("two");
    const log::ThreadLoggerScope inner(quiet.logger);
    log::warn("three");
    log::error("four");
  }
  EXPECT_FALSE(log::debugging(log::ModuleHere()));
  EXPECT_EQ(chatty.text, "one\n");
  EXPECT_EQ(quiet.text, "four\n");
  EXPECT_EQ(captured.text(), "");
}

TEST(LogTest, NoMessageCostsMoreThanOneLoadAfterTheLastLoggerHasEnded) {
  {
    const LoggedHere here(log::Level::kDebug);
  }
  EXPECT_EQ(log::internal::taken[static_cast<size_t>(log::ModuleHere())], 0);
}

TEST(LogTest, LoggerThatHasEndedDropsMessages) {
  LoggedHere here(log::Level::kInfo);
  const log::ThreadLoggerScope scope(here.logger);
  here.logger->End();
  log::error("late");
  EXPECT_EQ(here.text, "");
}

TEST(LogTest, DropsTheMessagesOfALoggersOwnSink) {
  std::string text;
  const auto logger = std::make_shared<log::Logger>(
      [&](const log::Record& record) {
        text += record.message;
        log::error("within");
      },
      log::Level::kInfo);
  const log::ThreadLoggerScope scope(logger);
  log::error("once");
  EXPECT_EQ(text, "once");
}

TEST(LogTest, WritesNothingWithoutASink) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log::error("dropped");
  {
    const CapturedLog captured;
  }
  log::error("dropped as well");
  EXPECT_FALSE(log::debugging(log::ModuleHere()));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LogTest, TellsTheSinkTheLevelOfEachMessage) {
  std::vector<std::pair<log::Level, std::string>> messages;
  log::SetSink([&](const log::Record& record) { messages.emplace_back(record.level, record.message); },
               log::Level::kDebug);
  EXPECT_TRUE(log::debugging(log::ModuleHere()));
  log::debug("one");
  log::error("two {}", 2);
  log::SetSink({});
  log::error("three");
  const std::vector<std::pair<log::Level, std::string>> expected{{log::Level::kDebug, "one"},
                                                                 {log::Level::kError, "two 2"}};
  EXPECT_EQ(messages, expected);
}

TEST(LogTest, ModulesAreFoldersAndAreSorted) {
  EXPECT_TRUE(std::ranges::is_sorted(log::kModules));
  const std::filesystem::path sources = std::filesystem::path(PENSTOCK_SOURCE_DIR) / "src";
  for (const std::string_view module : log::kModules) {
    if (module == "other" || module == "refusals") continue;  // they have names of their own
    std::string folder(module);
    std::ranges::replace(folder, '.', '/');
    EXPECT_TRUE(std::filesystem::is_directory(sources / folder)) << module;
  }
  for (const auto& each : std::filesystem::directory_iterator(sources)) {
    if (!each.is_directory()) continue;
    EXPECT_TRUE(log::IsModule(each.path().filename().string())) << each.path();
  }
}

TEST(LogTest, AMessageBelongsToTheModuleOfItsFile) {
  static_assert(log::NameOf(log::ModuleHere()) == "base");
  static_assert(log::NameOf(log::ModuleOf("/home/src/penstock/src/rpc/gss/acceptor.cc")) == "rpc.gss");
  static_assert(log::NameOf(log::ModuleOf("./src/nfs/v4/operations/open.cc")) == "nfs.v4");
  static_assert(log::NameOf(log::ModuleOf("src/rpcbind/registrar.cc")) == "rpcbind");
  static_assert(log::NameOf(log::ModuleOf("examples/archive/main.cc")) == "other");
  static_assert(log::NameOf(log::ModuleOf("/other_src/rpc/file.cc")) == "other");
  std::string module;
  log::SetSink([&](const log::Record& record) { module = record.module; });
  log::warn("{} + {}", 1, 2);
  log::SetSink({});
  EXPECT_EQ(module, "base");
}

TEST(LogTest, EachModuleHasALevelThatMayChange) {
  const CapturedLog captured;  // info and above
  constexpr log::Module kTcp = log::Named("rpc.tcp"), kRpc = log::Named("rpc"), kBind = log::Named("rpcbind");
  const auto level_of = [](std::string_view module) {
    const auto levels = log::LogLevels();
    return std::ranges::find(levels, module, &log::ModuleLevel::module)->least;
  };
  EXPECT_TRUE(log::SetLogLevel("rpc", log::Level::kDebug));
  EXPECT_TRUE(log::Takes(log::Level::kDebug, kTcp)) << "below rpc";
  EXPECT_TRUE(log::Takes(log::Level::kDebug, kRpc));
  EXPECT_FALSE(log::Takes(log::Level::kDebug, kBind)) << "another module with the same beginning";
  EXPECT_TRUE(log::SetLogLevel("tcp", log::Level::kError)) << "without the outer folder";
  EXPECT_FALSE(log::Takes(log::Level::kWarn, kTcp));
  EXPECT_EQ(level_of("rpc.tcp"), log::Level::kError);
  EXPECT_EQ(level_of("rpc"), log::Level::kDebug);
  EXPECT_EQ(level_of("rpcbind"), log::Level::kInfo);
  log::SetLogLevel(log::Level::kWarn);
  EXPECT_EQ(level_of("rpc"), log::Level::kWarn);
  log::info("not taken");
  EXPECT_TRUE(log::SetLogLevel("base", log::Level::kDebug));
  log::debug("taken");
  EXPECT_EQ(captured.text(), "debug: taken\n");
}

TEST(LogTest, RejectsAnUnknownModule) {
  const CapturedLog captured;
  for (const char* const name : {"", "rp", "rpc.", "pc", "nfs.v5", "cp"}) {
    EXPECT_FALSE(log::SetLogLevel(name, log::Level::kDebug)) << name;
    EXPECT_FALSE(log::IsModule(name)) << name;
  }
  for (const log::ModuleLevel& each : log::LogLevels()) EXPECT_EQ(each.least, log::Level::kInfo);
}

TEST(LogTest, WithoutASinkNoModuleHasALevel) {
  for (const log::ModuleLevel& each : log::LogLevels()) EXPECT_FALSE(each.least) << each.module;
}

TEST(LogTest, PassesTheFieldsOfAMessage) {
  std::vector<std::string> said;
  log::SetSink([&](const log::Record& record) {
    said.emplace_back(record.message);
    for (const log::Field& each : record.fields) said.push_back(std::string(each.key) + "=" + std::string(each.value));
  });
  const log::Field fields[] = {{.key = "client", .value = "192.0.2.1"}, {.key = "reason", .value = "secure"}};
  log::Write(log::Level::kWarn, log::Named("refusals"), "{} is no format here", fields);
  log::Write(log::Level::kInfo, log::Named("refusals"), "below the level", fields);
  log::SetSink({});
  EXPECT_EQ(said, (std::vector<std::string>{"{} is no format here", "client=192.0.2.1", "reason=secure"}));
}

TEST(LogTest, ParsesLevels) {
  EXPECT_EQ(log::ParseLevel("debug"), log::Level::kDebug);
  EXPECT_EQ(log::ParseLevel("warning"), log::Level::kWarn);
  EXPECT_EQ(log::ParseLevel("warn"), log::Level::kWarn);
  EXPECT_EQ(log::ParseLevel("error"), log::Level::kError);
  EXPECT_EQ(log::ParseLevel("Error"), std::nullopt);
  EXPECT_EQ(log::ParseLevel(""), std::nullopt);
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
