#include "base/loop.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <thread>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(Loop, RunsFunctionsThatOtherThreadsPost) {
  Loop loop;
  std::thread::id ran_on;
  std::thread poster([&] {
    loop.Post([&] {
      ran_on = std::this_thread::get_id();
      loop.Stop();
    });
  });
  loop.Run();
  poster.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(Loop, TimersExpireOnceForEachSetting) {
  Loop loop;
  int expired = 0;
  auto timer = loop.MakeTimer([&] {
    ++expired;
    loop.Stop();
  });
  timer->ExpireAfter(1h);
  timer->ExpireAfter(1ms);
  loop.Run();
  EXPECT_EQ(expired, 1);
}

TEST(Loop, FreesIdleMemoryAndThenSleeps) {
  Loop loop;
  loop.buffers().set_kept_octets(1 << 20);
  loop.buffers().Allocate(4096);
  // The second expiry frees the memory that was not needed since the first. Then no work is left, and the loop ends.
  EXPECT_EQ(loop.context().run(), 3u) << "on_idle once, the timer twice";
  EXPECT_EQ(loop.buffers().Trim().given_back, 0u);
}

TEST(Loop, FinishDoesNotWaitForIdleMemory) {
  Loop loop;
  loop.buffers().set_kept_octets(1 << 20);
  loop.Post([&] {
    loop.buffers().Allocate(4096);
    loop.Post([&] { loop.Finish(); });
  });
  loop.Run();
  EXPECT_EQ(loop.buffers().Trim().left, 4096u);
}

TEST(Loop, CancelledTimerDoesNotExpire) {
  Loop loop;
  bool expired = false;
  auto cancelled = loop.MakeTimer([&] { expired = true; });
  cancelled->ExpireAfter(0ms);
  cancelled->Cancel();
  auto stop = loop.MakeTimer([&] { loop.Stop(); });
  stop->ExpireAfter(5ms);
  loop.Run();
  EXPECT_FALSE(expired);
}

TEST(Loop, FinishWaitsForPendingWork) {
  Loop loop;
  bool expired = false;
  auto timer = loop.MakeTimer([&] { expired = true; });
  timer->ExpireAfter(5ms);
  loop.Post([&] { loop.Finish(); });
  loop.Run();
  EXPECT_TRUE(expired);
}

}  // namespace
}  // namespace penstock
