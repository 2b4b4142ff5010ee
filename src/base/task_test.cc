#include "base/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace penstock {
namespace {

Task<int> Answer() { co_return 42; }
Task<int> Twice() {
  const int once = co_await Answer();
  co_return once + co_await Answer();
}

TEST(Task, ReturnsItsValueToTheAwaiter) {
  int result = 0;
  Spawn([](int& out) -> Task<void> { out = co_await Twice(); }(result));
  EXPECT_EQ(result, 84);
}

TEST(Task, StartsWhenItIsAwaited) {
  bool started = false;
  {
    Task<void> task = [](bool& flag) -> Task<void> {
      flag = true;
      co_return;
    }(started);
  }
  EXPECT_FALSE(started);
}

TEST(Task, ReturnsMoveOnlyValues) {
  std::unique_ptr<std::string> result;
  const auto make = [](std::string text) -> Task<std::unique_ptr<std::string>> {
    co_return std::make_unique<std::string>(std::move(text));
  };
  Spawn([](auto& maker, auto& out) -> Task<void> { out = co_await maker("water"); }(make, result));
  EXPECT_EQ(*result, "water");
}

TEST(OneShot, ResumesItsWaiterWhenSet) {
  OneShot<int> completion;
  int result = 0;
  Spawn([](OneShot<int>& c, int& out) -> Task<void> { out = co_await c; }(completion, result));
  EXPECT_EQ(result, 0);
  completion.Set(7);
  EXPECT_EQ(result, 7);
}

TEST(OneShot, MayBeSetBeforeTheWait) {
  OneShot<int> completion;
  completion.Set(7);
  int result = 0;
  Spawn([](OneShot<int>& c, int& out) -> Task<void> { out = co_await c; }(completion, result));
  EXPECT_EQ(result, 7);
}

TEST(OneShot, WaiterMayDestroyIt) {
  auto completion = std::make_unique<OneShot<>>();
  OneShot<>& reference = *completion;
  Spawn([](std::unique_ptr<OneShot<>> owned) -> Task<void> { co_await *owned; }(std::move(completion)));
  reference.Set();
}

}  // namespace
}  // namespace penstock
