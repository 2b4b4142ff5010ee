#include "base/loop.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(Loop, RunsWhatOtherThreadsPost) {
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

TEST(Loop, ACancelledTimerStaysSilent) {
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

TEST(Loop, FinishesWhatIsUnderWay) {
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
