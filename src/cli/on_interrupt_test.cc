#include "cli/on_interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <tuple>

namespace penstock::cli {
namespace {

using Handler = void (*)(int);

Handler HandlerOf(int signal) {
  struct sigaction action{};
  EXPECT_EQ(::sigaction(signal, nullptr, &action), 0);
  return action.sa_handler;
}

// Sets the effect of a signal while it lives. A shell may have started the tests with ignored signals.
class Effect {
 public:
  Effect(int signal, Handler handler) : signal_(signal), before_(std::signal(signal, handler)) {}
  ~Effect() { std::signal(signal_, before_); }
  Effect(const Effect&) = delete;
  Effect& operator=(const Effect&) = delete;

 private:
  const int signal_;
  const Handler before_;
};

// Raises the signal while the object lives, and runs the loop until the signal ends the process.
void RunAndRaise(int signal) {
  const Effect effect(signal, SIG_DFL);
  Loop loop;
  const OnInterrupt on_interrupt(loop, [] { std::ignore = ::write(STDERR_FILENO, "cleaned up", 10); });
  ::raise(signal);
  loop.Run();
}

// gtest runs suites with this suffix first, before other tests have started threads.
using OnInterruptDeathTest = testing::Test;

TEST_F(OnInterruptDeathTest, CleansUpBeforeTheSignalEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(RunAndRaise(signal), testing::KilledBySignal(signal), "cleaned up");
  }
}

TEST(OnInterrupt, KeepsIgnoringASignalThatWasIgnored) {
  const Effect ignored(SIGHUP, SIG_IGN);
  const Effect effective(SIGTERM, SIG_DFL);
  {
    Loop loop;
    const OnInterrupt on_interrupt(loop, [] { ADD_FAILURE() << "cleaned up for an ignored signal"; });
    EXPECT_EQ(HandlerOf(SIGHUP), SIG_IGN);
    EXPECT_NE(HandlerOf(SIGTERM), SIG_DFL);
  }
  EXPECT_EQ(HandlerOf(SIGHUP), SIG_IGN);
}

TEST(OnInterrupt, RestoresTheDefaultEffectOfTheSignalsAtItsEnd) {
  const Effect interrupt(SIGINT, SIG_DFL);
  const Effect termination(SIGTERM, SIG_DFL);
  Loop loop;
  {
    const OnInterrupt on_interrupt(loop, [] {});
    EXPECT_NE(HandlerOf(SIGINT), SIG_DFL);
  }
  for (const int signal : {SIGINT, SIGTERM}) EXPECT_EQ(HandlerOf(signal), SIG_DFL);
}

}  // namespace
}  // namespace penstock::cli
