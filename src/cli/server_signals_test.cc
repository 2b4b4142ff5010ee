#include "cli/server_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Handler = void (*)(int);

Handler HandlerSetFor(int signal) {
  struct sigaction action{};
  EXPECT_EQ(::sigaction(signal, nullptr, &action), 0);
  return action.sa_handler;
}

class StopSignalsTest : public testing::Test {
 protected:
  StopSignalsTest() {
    log::SetSink([this](const log::Record& record) { messages_.emplace_back(record.message); });
  }
  ~StopSignalsTest() override {
    log::SetSink({});
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  }

  // Sends the signal to the process, and lets the context handle it.
  void Raise(int signal) {
    ::raise(signal);
    context_.poll();
  }

  std::vector<std::string> messages_;
  asio::io_context context_{1};
};

TEST_F(StopSignalsTest, TheInterruptAndTerminationSignalsStopTheContext) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const StopSignals signals(context_);
    context_.poll();
    EXPECT_FALSE(context_.stopped());
    Raise(signal);
    EXPECT_TRUE(context_.stopped()) << signal;
    context_.restart();
  }
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(StopSignalsTest, AHangUpReloads) {
  StopSignals signals(context_);
  Raise(SIGHUP);
  int reloads = 0;
  signals.ReloadBy([&] { ++reloads; });
  Raise(SIGHUP);
  Raise(SIGHUP);
  EXPECT_EQ(reloads, 2);
  EXPECT_FALSE(context_.stopped());
  signals.ReloadBy({});
  Raise(SIGHUP);
  EXPECT_EQ(reloads, 2);
  EXPECT_FALSE(context_.stopped());
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(StopSignalsTest, ForgetRestoresTheDefaultEffectOfStopSignalsAndIgnoresHangUps) {
  StopSignals signals(context_);
  EXPECT_NE(HandlerSetFor(SIGTERM), SIG_DFL);
  signals.Forget();
  EXPECT_EQ(HandlerSetFor(SIGINT), SIG_DFL);
  EXPECT_EQ(HandlerSetFor(SIGTERM), SIG_DFL);
  EXPECT_EQ(HandlerSetFor(SIGHUP), SIG_IGN);
}

}  // namespace
}  // namespace penstock::cli
