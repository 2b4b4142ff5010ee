#include "base/refusal_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/test_log.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class RefusalLogTest : public testing::Test {
 protected:
  RefusalLogTest() : RefusalLogTest(RefusalLog::Limits()) {}
  explicit RefusalLogTest(RefusalLog::Limits limits) : refusals_(limits, [this] { return now_; }) {}

  void Tell(const std::string& client, std::string_view reason = "client", std::string_view path = "/data") {
    refusals_.Tell({.client = asio::ip::make_address(client), .reason = reason, .export_path = path}, [&] {
      ++made_;
      return RefusalDetails{.text = "is refused", .user = "uid 0", .operation = "GETATTR of version 3"};
    });
  }
  // Lets time pass as the server does, which flushes once a second.
  void Pass(std::chrono::seconds time) {
    for (; time > 0s; time -= 1s) {
      now_ += 1s;
      refusals_.Flush();
    }
  }
  size_t TakeLines() {
    const std::string text = captured_.Take();
    return static_cast<size_t>(std::ranges::count(text, '\n'));
  }

  CapturedLog captured_;
  TimePoint now_{1h};
  RefusalLog refusals_;
  size_t made_ = 0;
};

constexpr char kLine[] = "warning: 192.0.2.1 is refused (GETATTR of version 3 by uid 0)";

TEST_F(RefusalLogTest, LogsTheFirstRefusalAtOnce) {
  Tell("192.0.2.1");
  EXPECT_EQ(captured_.Take(), std::string(kLine) + "\n");
}

TEST_F(RefusalLogTest, AThousandRefusalsGiveOneLineAndACount) {
  for (int i = 0; i < 1000; ++i) Tell("192.0.2.1");
  EXPECT_EQ(captured_.Take(), std::string(kLine) + "\n");
  EXPECT_EQ(made_, 1u) << "the text is made for logged lines only";
  Pass(59s);
  EXPECT_EQ(captured_.Take(), "");
  Pass(1s);
  EXPECT_EQ(captured_.Take(), std::string(kLine) + " (999 more since the last such line)\n");
  Pass(600s);
  EXPECT_EQ(captured_.Take(), "");
}

TEST_F(RefusalLogTest, RefusalsThatGoOnGiveALineAMinute) {
  for (int second = 0; second < 180; ++second) {
    for (int i = 0; i < 10; ++i) Tell("192.0.2.1");
    Pass(1s);
  }
  EXPECT_EQ(captured_.Take(), std::string(kLine) + "\n" + kLine + " (599 more since the last such line)\n" + kLine +
                                  " (600 more since the last such line)\n" + kLine +
                                  " (600 more since the last such line)\n");
}

TEST_F(RefusalLogTest, AfterAMinuteARefusalIsAFirstOneAgain) {
  Tell("192.0.2.1");
  Pass(60s);
  Tell("192.0.2.1");
  EXPECT_EQ(captured_.Take(), std::string(kLine) + "\n" + kLine + "\n");
}

TEST_F(RefusalLogTest, EachHostReasonAndExportHasLinesOfItsOwn) {
  Tell("192.0.2.1");
  Tell("192.0.2.2");
  Tell("192.0.2.1", "port");
  Tell("192.0.2.1", "port", "/other");
  EXPECT_EQ(TakeLines(), 4u);
  Tell("::ffff:192.0.2.1");
  EXPECT_EQ(TakeLines(), 0u) << "the same host over IPv6";
  Tell("2001:db8::1");
  EXPECT_EQ(TakeLines(), 1u);
  Tell("2001:db8::2");
  EXPECT_EQ(TakeLines(), 0u) << "another address of the host's network";
}

TEST_F(RefusalLogTest, FinishLogsWhatIsNotLoggedYet) {
  for (int i = 0; i < 5; ++i) Tell("192.0.2.1");
  captured_.Take();
  refusals_.Finish();
  EXPECT_EQ(captured_.Take(), std::string(kLine) + " (4 more since the last such line)\n");
  refusals_.Finish();
  EXPECT_EQ(captured_.Take(), "");
}

TEST_F(RefusalLogTest, AllHostsTogetherGetTwentyLinesInASecond) {
  for (int i = 0; i < 200; ++i) Tell("10.0.0." + std::to_string(i));
  EXPECT_EQ(TakeLines(), 20u);
  Pass(1s);
  EXPECT_EQ(captured_.Take(), "warning: 180 more refusals are not in the log: it takes 20 lines in a second\n");
  Tell("10.0.1.1");
  EXPECT_EQ(TakeLines(), 1u);
}

TEST_F(RefusalLogTest, AFloodOfAddressesTakesNoMoreMemoryOrLines) {
  size_t lines = 0;
  for (int second = 0; second < 100; ++second) {
    for (int i = 0; i < 100; ++i) Tell("10." + std::to_string(second) + ".0." + std::to_string(i));
    Pass(1s);
    lines += TakeLines();
  }
  EXPECT_LE(lines, 100u * 21);
  EXPECT_GE(lines, 100u * 20);
}

class SmallRefusalLogTest : public RefusalLogTest {
 protected:
  SmallRefusalLogTest() : RefusalLogTest({.entries = 2, .interval = 1min, .lines_per_second = 20}) {}
};

TEST_F(SmallRefusalLogTest, TheOldestEntryGoesAndItsRefusalsAreStillCounted) {
  for (int i = 0; i < 4; ++i) Tell("10.0.0.1");
  Pass(1s);
  Tell("10.0.0.2");
  Pass(1s);
  Tell("10.0.0.3");  // 10.0.0.1 goes
  EXPECT_EQ(TakeLines(), 3u);
  Pass(1s);
  EXPECT_EQ(captured_.Take(), "warning: 3 more refusals are not in the log: it takes 20 lines in a second\n");
  Tell("10.0.0.2");
  EXPECT_EQ(TakeLines(), 0u) << "it is remembered";
  Tell("10.0.0.1");
  EXPECT_EQ(TakeLines(), 1u) << "it is forgotten";
}

TEST_F(RefusalLogTest, ReplacesControlCharactersAndCutsLongTexts) {
  refusals_.Tell({.client = asio::ip::make_address("192.0.2.1"), .reason = "no_export"},
                 [] { return RefusalDetails{.text = "cannot mount \"/\n\x1b[31m\"" + std::string(5000, 'x')}; });
  const std::string text = captured_.Take();
  EXPECT_TRUE(text.starts_with("warning: 192.0.2.1 cannot mount \"/??[31m\"xxx")) << text;
  EXPECT_LT(text.size(), 700u);
}

TEST_F(RefusalLogTest, CountsNothingWhileTheModuleIsSilent) {
  log::SetLogLevel("refusals", log::Level::kError);
  Tell("192.0.2.1");
  EXPECT_EQ(made_, 0u);
  log::SetLogLevel("refusals", log::Level::kWarn);
  Tell("192.0.2.1");
  EXPECT_EQ(TakeLines(), 1u);
}

TEST(RefusalLogFields, TellClientReasonExportUserOperationAndCount) {
  std::vector<std::map<std::string, std::string>> lines;
  log::SetSink([&](const log::Record& record) {
    auto& line = lines.emplace_back();
    line["module"] = record.module;
    for (const log::Field& field : record.fields) line[std::string(field.key)] = field.value;
  });
  RefusalLog refusals;
  for (int i = 0; i < 3; ++i) {
    refusals.Tell({.client = asio::ip::make_address("192.0.2.1"), .reason = "ro", .export_path = "/data"},
                  [] { return RefusalDetails{.text = "is refused", .user = "uid 7", .operation = "WRITE"}; });
  }
  refusals.Finish();
  log::SetSink({});
  std::map<std::string, std::string> expected{{"module", "refusals"}, {"client", "192.0.2.1"}, {"reason", "ro"},
                                              {"export", "/data"},    {"user", "uid 7"},       {"operation", "WRITE"}};
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], expected);
  expected["more"] = "2";
  EXPECT_EQ(lines[1], expected);
}

TEST(RefusalLogThreads, ManyThreadsTellAtOnce) {
  const CapturedLog captured;
  RefusalLog refusals;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&refusals] {
      for (int i = 0; i < 500; ++i) {
        refusals.Tell({.client = asio::ip::make_address("192.0.2.1"), .reason = "client"},
                      [] { return RefusalDetails{.text = "is refused"}; });
      }
    });
  }
  for (std::thread& each : threads) each.join();
  refusals.Finish();
  EXPECT_EQ(captured.text(),
            "warning: 192.0.2.1 is refused\nwarning: 192.0.2.1 is refused (1999 more since the last such line)\n");
}

}  // namespace
}  // namespace penstock
