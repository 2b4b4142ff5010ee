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

TEST(Offload, RunsElsewhereAndComesBack) {
  Loop loop;
  asio::thread_pool pool(1);
  std::thread::id worked_on;
  std::thread::id resumed_on;
  Spawn([](auto& l, auto& p, auto& worked, auto& resumed) -> Task<void> {
    worked = co_await Offload(l, p, [] { return std::this_thread::get_id(); });
    resumed = std::this_thread::get_id();
    l.Stop();
  }(loop, pool, worked_on, resumed_on));
  loop.Run();
  EXPECT_NE(worked_on, std::this_thread::get_id());
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
}

TEST(Offload, StaysWhereThereIsNowhereToGo) {
  Loop loop;
  asio::thread_pool pool(1);
  const auto here = [] { return std::this_thread::get_id(); };
  std::thread::id without_loop, without_pool;
  Spawn([](auto& l, auto& p, auto work, auto& first, auto& second) -> Task<void> {
    first = co_await Offload(nullptr, &p, work);
    second = co_await Offload(&l, nullptr, work);
  }(loop, pool, here, without_loop, without_pool));
  EXPECT_EQ(without_loop, std::this_thread::get_id());
  EXPECT_EQ(without_pool, std::this_thread::get_id());
}

}  // namespace
}  // namespace penstock
