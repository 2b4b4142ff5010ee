// Tasks, and functions that start them and wait for them.
#include "penstock/task.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "library/cpp/test_support.h"
#include "penstock/penstock.hpp"

namespace penstock_test {
namespace {

using penstock::Failure;
using penstock::Start;
using penstock::SyncWait;
using penstock::WhenAll;

class TaskTest : public MountedTest {};

INSTANTIATE_TEST_SUITE_P(Runtimes, TaskTest, testing::Values(0, 1, 3), KindOfRuntime);

Task<std::string> ReadText(const Mount& mount, std::string name) {
  Result<File> file = co_await mount.OpenFile(name, O_RDONLY);
  if (!file) throw Failure(file.error());
  std::string text(100, ' ');
  const Result<size_t> count = co_await file->Read(0, text);
  text.resize(count.value());
  const Result<> closed = co_await file->Close();
  closed.value();
  co_return text;
}

TEST_P(TaskTest, ReturnsItsValue) {
  mount.WriteFile("a", "text").Get().value();
  EXPECT_EQ(SyncWait(runtime, ReadText(mount, "a")), "text");
  EXPECT_EQ(Await(Start(ReadText(mount, "a"))), "text");
}

TEST_P(TaskTest, ThrowsItsException) {
  if (misjudges_exceptions()) GTEST_SKIP();
  try {
    (void)SyncWait(runtime, ReadText(mount, "absent"));
    FAIL() << "no exception";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().number, ENOENT);
  }
  EXPECT_THROW((void)Await(Start(ReadText(mount, "absent"))), Failure);
}

TEST_P(TaskTest, AwaitsTasks) {
  mount.WriteFile("a", "one").Get().value();
  mount.WriteFile("b", "two").Get().value();
  const auto both = [](const Mount& m) -> Task<std::string> {
    const std::string first = co_await ReadText(m, "a");
    Task<std::string> second = ReadText(m, "b");
    std::string text = first + co_await std::move(second);
    try {
      text += co_await ReadText(m, "absent");
    } catch (const Failure& failure) {
      text += std::to_string(failure.error().number);
    }
    co_return text;
  };
  EXPECT_EQ(SyncWait(runtime, both(mount)), "onetwo" + std::to_string(ENOENT));
}

TEST_P(TaskTest, MayReturnNothingOrWhatCannotBeCopied) {
  const auto nothing = [](const Mount& m) -> Task<> {
    const Result<> ping = co_await m.Ping();
    ping.value();
  };
  SyncWait(runtime, nothing(mount));
  const auto pointer = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  EXPECT_EQ(*SyncWait(runtime, pointer()), 7);
}

TEST_P(TaskTest, BeginsOnlyWhenItIsUsed) {
  bool begun = false;
  {
    const auto begin = [&]() -> Task<> {
      begun = true;
      co_return;
    };
    [[maybe_unused]] const Task<> never = begin();
  }
  EXPECT_FALSE(begun);
}

TEST_P(TaskTest, IsDestroyedBeforeItsFutureIsReady) {
  const auto guard = std::make_shared<int>();
  const auto run = [](const Mount& m, std::shared_ptr<int>) -> Task<> {
    const Result<> ping = co_await m.Ping();
    ping.value();
  };
  Await(Start(run(mount, guard)));
  EXPECT_EQ(guard.use_count(), 1);
}

TEST_P(TaskTest, SyncWaitFailsInACallback) {
  std::promise<int> promise;
  std::future<int> number = promise.get_future();
  mount.Ping().Then([&](const Result<>&) {
    try {
      (void)SyncWait(runtime, ReadText(mount, "a"));
      promise.set_value(0);
    } catch (const Failure& failure) {
      promise.set_value(failure.error().number);
    }
  });
  EXPECT_EQ(Await(std::move(number)), EDEADLK);
}

TEST_P(TaskTest, WaitsForSomethingElseThanOperations) {
  std::promise<void> promise;
  // Another thread resumes the task.
  struct Elsewhere {
    std::thread& thread;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) const {
      // The other thread may destroy the frame, and this object in it, at once.
      std::thread& started = thread;
      started = std::thread([waiter] {
        std::this_thread::sleep_for(milliseconds(20));
        waiter.resume();
      });
    }
    void await_resume() const {}
  };
  std::thread thread;
  const auto run = [](std::thread& other) -> Task<int> {
    Elsewhere elsewhere{other};
    co_await elsewhere;
    co_return 5;
  };
  EXPECT_EQ(SyncWait(runtime, run(thread)), 5);
  thread.join();
}

TEST_P(TaskTest, RunsAThousandOperationsAtOnce) {
  std::vector<Operation<>> writes;
  const std::string text(100, 'x');
  for (size_t i = 0; i < 20; ++i) {
    writes.push_back(mount.WriteFile(std::to_string(i), std::string_view(text).substr(0, i)));
  }
  for (const Result<>& each : SyncWait(runtime, WhenAll(std::move(writes)))) EXPECT_TRUE(each);

  std::vector<Operation<penstock::Attributes>> queries;
  for (size_t i = 0; i < 1000; ++i) queries.push_back(mount.GetAttributes(std::to_string(i % 25)));
  const std::vector<Result<penstock::Attributes>> results = SyncWait(runtime, WhenAll(std::move(queries)));
  ASSERT_EQ(results.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) {
    if (i % 25 < 20) {
      EXPECT_EQ(results[i].value().length, i % 25);
    } else {
      EXPECT_EQ(NumberOf(results[i]), ENOENT);
    }
  }
}

TEST_P(TaskTest, RunsManyTasksAtOnce) {
  mount.WriteFile("a", "text").Get().value();
  std::vector<Task<std::string>> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(ReadText(mount, "a"));
  EXPECT_EQ(SyncWait(runtime, WhenAll(std::move(tasks))), std::vector<std::string>(100, "text"));
}

TEST_P(TaskTest, WhenAllTakesNothingAndWhatCannotStart) {
  EXPECT_TRUE(SyncWait(runtime, WhenAll(std::vector<Operation<>>())).empty());
  EXPECT_TRUE(SyncWait(runtime, WhenAll(std::vector<Task<int>>())).empty());
  Mount empty = std::move(mount);
  mount = std::move(empty);
  std::vector<Operation<>> operations;
  operations.push_back(empty.Ping());
  operations.push_back(mount.Ping());
  operations.push_back(empty.Ping());
  const std::vector<Result<>> results = SyncWait(runtime, WhenAll(std::move(operations)));
  EXPECT_EQ(NumberOf(results[0]), EBADF);
  EXPECT_TRUE(results[1]);
  EXPECT_EQ(NumberOf(results[2]), EBADF);
}

TEST_P(TaskTest, WhenAllThrowsTheFirstExceptionAfterAllHaveEnded) {
  if (misjudges_exceptions()) GTEST_SKIP();
  std::atomic<int> ended = 0;
  const auto run = [&](const Mount& m, int number) -> Task<> {
    for (int i = 0; i < number; ++i) {
      const Result<> ping = co_await m.Ping();
      EXPECT_TRUE(ping);
    }
    ++ended;
    if (number > 0) throw std::runtime_error(std::to_string(number));
  };
  std::vector<Task<>> tasks;
  for (const int number : {0, 9, 1, 5}) tasks.push_back(run(mount, number));
  try {
    SyncWait(runtime, WhenAll(std::move(tasks)));
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "9");
  }
  EXPECT_EQ(ended, 4);
}

}  // namespace
}  // namespace penstock_test
