#include "rdma/sim/world.h"

#include <gmock/gmock.h>

namespace penstock::rdma::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(World, RunsEventsByTimeThenByOrderOfScheduling) {
  World world(1);
  std::vector<int> order;
  world.Schedule(2ms, [&] { order.push_back(3); });
  world.Schedule(1ms, [&] {
    order.push_back(1);
    world.Schedule(0ms, [&] { order.push_back(2); });
  });
  world.Schedule(2ms, [&] { order.push_back(4); });
  EXPECT_TRUE(world.Run());
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

TEST(World, TimeJumpsToTheNextEvent) {
  World world(1);
  TimePoint start = world.Now();
  world.Schedule(24h, [] {});
  EXPECT_TRUE(world.Step());
  EXPECT_EQ(world.Now() - start, 24h);
  EXPECT_FALSE(world.Step());
}

TEST(World, RunUntilStopsAtItsConditionOrWithoutEvents) {
  World world(1);
  int count = 0;
  for (int i = 0; i < 5; ++i) world.Schedule(1ms, [&] { ++count; });
  EXPECT_TRUE(world.RunUntil([&] { return count == 3; }));
  EXPECT_EQ(count, 3);
  EXPECT_EQ(world.events_pending(), 2u);
  EXPECT_FALSE(world.RunUntil([&] { return count == 10; }));
  EXPECT_EQ(count, 5);
}

TEST(World, RunStopsAfterTheMaximumOfEvents) {
  World world(1);
  std::function<void()> again = [&] { world.Schedule(1ms, again); };
  again();
  EXPECT_FALSE(world.Run(1000));
}

TEST(World, RunForAdvancesTimeByItsDuration) {
  World world(1);
  TimePoint start = world.Now();
  int count = 0;
  world.Schedule(1s, [&] { ++count; });
  world.Schedule(2s, [&] { ++count; });
  world.RunFor(1s);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(world.Now() - start, 1s);
}

TEST(World, TimerExpiresOncePerSetting) {
  World world(1);
  std::vector<Duration> expired;
  TimePoint start = world.Now();
  std::unique_ptr<Timer> timer = world.MakeTimer([&] {
    expired.push_back(world.Now() - start);
    if (expired.size() == 1) timer->ExpireAfter(5ms);
  });
  timer->ExpireAfter(1ms);
  timer->ExpireAfter(3ms);  // replaces the first setting
  world.Run();
  EXPECT_THAT(expired, ElementsAre(3ms, 8ms));
  timer->ExpireAfter(1ms);
  timer->Cancel();
  timer->ExpireAfter(1ms);
  timer.reset();
  world.Run();
  EXPECT_EQ(expired.size(), 2u);
}

TEST(World, TimerCanBeDestroyedInItsCallback) {
  World world(1);
  int count = 0;
  std::unique_ptr<Timer> timer = world.MakeTimer([&] {
    timer.reset();
    ++count;
  });
  timer->ExpireAfter(1ms);
  world.Run();
  EXPECT_EQ(count, 1);
}

TEST(World, DestroysPendingEventsThatOwnTimers) {
  World world(1);
  std::shared_ptr<Timer> timer = world.MakeTimer([] {});
  timer->ExpireAfter(2ms);
  world.Schedule(1ms, [timer] { timer->Cancel(); });
  timer.reset();
}

TEST(World, SeedDeterminesRandomNumbers) {
  World a(7), b(7), c(8);
  std::vector<uint64_t> from_a, from_b, from_c;
  for (int i = 0; i < 100; ++i) {
    from_a.push_back(a.random().Below(1000));
    from_b.push_back(b.random().Below(1000));
    from_c.push_back(c.random().Below(1000));
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
  EXPECT_FALSE(a.random().Chance(0));
  EXPECT_TRUE(a.random().Chance(1));
}

}  // namespace
}  // namespace penstock::rdma::sim
