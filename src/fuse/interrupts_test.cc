#include "fuse/interrupts.h"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/test_loop.h"

namespace penstock::fuse {
namespace {

constexpr std::string_view kQuiet = "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
constexpr std::string_view kStat = "12 (a) b) S 1 2 3 4 5 4194304 0 0";

TEST(IsBeingKilled, ASignalForAHandlerKillsNothing) {
  EXPECT_FALSE(IsBeingKilled("Name:\tx\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000000000\n", kStat));
}

TEST(IsBeingKilled, APendingKillDoes) {
  EXPECT_TRUE(IsBeingKilled("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n", kStat));
  EXPECT_TRUE(IsBeingKilled("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n", kStat));
}

TEST(IsBeingKilled, AProcessThatEndsByItselfIsNot) {
  EXPECT_FALSE(IsBeingKilled(kQuiet, "12 (a) S 1 2 3 4 5 4 0 0"));
  EXPECT_TRUE(IsBeingKilled(kQuiet, "12 (a) S 1 2 3 4 5 1028 0 0")) << "it has got a signal that kills";
}

TEST(IsBeingKilled, AProcessThatHasEndedIs) { EXPECT_TRUE(IsBeingKilled("", "")); }

class WaitingRequest final : public Interrupted {
 public:
  explicit WaitingRequest(pid_t pid) : pid_(pid) {}
  void HandleSignal() override { ++signals; }
  void HandleKill() override { killed = true; }
  pid_t pid() const override { return pid_; }

  int signals = 0;
  bool killed = false;

 private:
  const pid_t pid_;
};

TEST(Interrupts, ARequestEndsWithItsProcess) {
  Loop loop;
  Interrupts interrupts(loop);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  WaitingRequest waiting(child);
  WaitingRequest other(::getpid());
  WaitingRequest unknown(0);
  for (WaitingRequest* const each : {&waiting, &other, &unknown}) interrupts.HandleInterrupt(*each);
  ASSERT_TRUE(TurnUntil(loop, [&] { return waiting.signals + other.signals + unknown.signals == 3; }));
  EXPECT_FALSE(waiting.killed);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(TurnUntil(loop, [&] { return waiting.killed; }));
  EXPECT_FALSE(other.killed);
  EXPECT_FALSE(unknown.killed) << "a process of another namespace";
  for (WaitingRequest* const each : {&waiting, &other, &unknown}) interrupts.Remove(*each);
}

}  // namespace
}  // namespace penstock::fuse
