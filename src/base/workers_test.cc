#include "base/workers.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/loop.h"
#include "base/task.h"

namespace penstock {
namespace {

TEST(Workers, JoinWaitsForWhatWasPosted) {
  Workers workers(1);
  std::thread::id ran_on;
  auto owned = std::make_unique<int>(7);
  int seen = 0;
  workers.Post([&] { ran_on = std::this_thread::get_id(); });
  workers.Post([&seen, owned = std::move(owned)] { seen = *owned; });
  workers.Join();
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(seen, 7);
}

TEST(Offload, RunsElsewhereAndComesBack) {
  Loop loop;
  Workers workers(1);
  std::thread::id worked_on;
  std::thread::id resumed_on;
  Spawn([](auto& l, auto& w, auto& worked, auto& resumed) -> Task<void> {
    worked = co_await Offload(l, w, [] { return std::this_thread::get_id(); });
    resumed = std::this_thread::get_id();
    l.Stop();
  }(loop, workers, worked_on, resumed_on));
  loop.Run();
  EXPECT_NE(worked_on, std::this_thread::get_id());
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
}

TEST(Offload, StaysWhereThereIsNowhereToGo) {
  Loop loop;
  Workers workers(1);
  const auto here = [] { return std::this_thread::get_id(); };
  std::thread::id without_loop, without_workers;
  Spawn([](auto& l, auto& w, auto work, auto& first, auto& second) -> Task<void> {
    first = co_await Offload(nullptr, &w, work);
    second = co_await Offload(&l, nullptr, work);
  }(loop, workers, here, without_loop, without_workers));
  EXPECT_EQ(without_loop, std::this_thread::get_id());
  EXPECT_EQ(without_workers, std::this_thread::get_id());
}

}  // namespace
}  // namespace penstock
