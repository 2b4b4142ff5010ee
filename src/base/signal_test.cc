#include "base/signal.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/loop.h"

namespace penstock {
namespace {

Task<void> CountWakings(Signal& signal, int times, int& count) {
  for (int i = 0; i < times; ++i) {
    co_await signal;
    ++count;
  }
}

TEST(Signal, ResumesAllWaiters) {
  Signal signal;
  int first = 0;
  int second = 0;
  Spawn(CountWakings(signal, 2, first));
  Spawn(CountWakings(signal, 1, second));
  signal.Notify();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  signal.Notify();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

TEST(Signal, WaiterMayDestroyTheSignal) {
  auto signal = std::make_unique<Signal>();
  Signal& reference = *signal;
  bool woken = false;
  Spawn([](std::unique_ptr<Signal> owned, bool& flag) -> Task<void> {
    co_await *owned;
    flag = true;
  }(std::move(signal), woken));
  reference.Notify();
  EXPECT_TRUE(woken);
}

TEST(Sleep, ResumesInALaterTurnOfTheLoop) {
  Loop loop;
  bool awake = false;
  Spawn([](Loop& l, bool& flag) -> Task<void> {
    co_await Sleep(l, Duration::zero());
    flag = true;
    l.Stop();
  }(loop, awake));
  EXPECT_FALSE(awake);
  loop.Run();
  EXPECT_TRUE(awake);
}

}  // namespace
}  // namespace penstock
