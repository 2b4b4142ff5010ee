#include "base/driven_loop.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "base/signal.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

class DrivenLoopTest : public testing::Test {
 protected:
  // Whether the descriptor becomes readable within the time.
  bool BecomesReadable(int milliseconds) {
    pollfd poll_one{.fd = descriptor, .events = POLLIN, .revents = 0};
    return ::poll(&poll_one, 1, milliseconds) == 1;
  }
  // What a host does until `done` is true.
  template <class Condition>
  void DriveUntil(Condition done) {
    while (!done()) {
      ASSERT_TRUE(BecomesReadable(10'000));
      driven.RunReady();
    }
  }

  Loop loop;
  DrivenLoop driven{loop};
  const int descriptor = driven.descriptor();
};

TEST_F(DrivenLoopTest, IsNotReadableWhileThereIsNothingToDo) {
  driven.RunReady();
  EXPECT_FALSE(BecomesReadable(20));
}

TEST_F(DrivenLoopTest, IsReadableAfterAPostOfItsOwnThread) {
  bool ran = false;
  driven.RunReady();
  loop.Post([&] { ran = true; });
  DriveUntil([&] { return ran; });
  EXPECT_FALSE(BecomesReadable(20)) << "the work is done";
}

TEST_F(DrivenLoopTest, IsReadableAfterEveryPostOfAnotherThread) {
  constexpr int kPosts = 2000;
  int ran = 0;
  std::thread poster([&] {
    for (int i = 0; i < kPosts; ++i) loop.Post([&] { ++ran; });
  });
  DriveUntil([&] { return ran == kPosts; });
  poster.join();
  driven.RunReady();
  EXPECT_FALSE(BecomesReadable(20));
}

TEST_F(DrivenLoopTest, IsReadableWhenATimerExpires) {
  bool over = false;
  const auto timer = loop.MakeTimer([&] { over = true; });
  timer->ExpireAfter(10ms);
  DriveUntil([&] { return over; });
}

TEST_F(DrivenLoopTest, IsReadableForWorkThatCameBeforeTheDescriptorWasAskedFor) {
  Loop other;
  DrivenLoop late(other);
  bool ran = false;
  other.Post([&] { ran = true; });
  pollfd poll_one{.fd = late.descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&poll_one, 1, 10'000), 1);
  late.RunReady();
  EXPECT_TRUE(ran);
  EXPECT_EQ(::poll(&poll_one, 1, 20), 0);
}

TEST_F(DrivenLoopTest, LeavesWorkForTheNextCallIfThereIsMuch) {
  uint64_t ran = 0;
  bool stop = false;
  const std::function<void()> again = [&] {
    ++ran;
    if (!stop) loop.Post(again);
  };
  loop.Post(again);
  driven.RunReady();
  EXPECT_GT(ran, 0u) << "and RunReady() has returned, although there is always more to do";
  EXPECT_TRUE(BecomesReadable(0));
  stop = true;
  driven.RunReady();
}

TEST_F(DrivenLoopTest, WaitsForTheNextWork) {
  bool over = false;
  const auto timer = loop.MakeTimer([&] { over = true; });
  timer->ExpireAfter(1ms);
  driven.RunNext(std::nullopt);
  EXPECT_TRUE(over);
  driven.RunNext(1ms);
}

TEST_F(DrivenLoopTest, TellsWhetherItRuns) {
  bool running = false;
  loop.Post([&] { running = driven.running(); });
  driven.RunReady();
  EXPECT_TRUE(running);
  EXPECT_FALSE(driven.running());
}

}  // namespace
}  // namespace penstock
