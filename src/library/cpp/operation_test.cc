// The ways in which an operation can be waited for.
#include "penstock/operation.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "library/cpp/test_support.h"
#include "penstock/penstock.hpp"

namespace penstock_test {
namespace {

using penstock::Attributes;
using penstock::kNoLimit;
using penstock::RuntimeOptions;

static_assert(!std::is_copy_constructible_v<Operation<int>> && std::is_nothrow_move_constructible_v<Operation<int>>);
static_assert(std::is_nothrow_move_assignable_v<Mount> && std::is_nothrow_move_assignable_v<File>);

// A coroutine type that knows nothing of the library.
struct Background {
  struct promise_type {
    Background get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

class OperationTest : public MountedTest {};

INSTANTIATE_TEST_SUITE_P(Runtimes, OperationTest, testing::Values(0, 1, 3), KindOfRuntime);

TEST_P(OperationTest, BlocksInGet) {
  EXPECT_TRUE(mount.WriteFile("a", "text").Get());
  Operation<std::string> read = mount.ReadFile("a");
  EXPECT_EQ(read.Get().value(), "text");
}

TEST_P(OperationTest, CallsAFunction) {
  mount.WriteFile("a", "text").Get().value();
  std::atomic<bool> called = false;
  const std::thread::id starter = std::this_thread::get_id();
  std::thread::id caller;
  std::string text;
  mount.ReadFile("a").Then([&](Result<std::string> result) {
    caller = std::this_thread::get_id();
    text = std::move(result).value();
    called = true;
  });
  EXPECT_TRUE(!runtime.is_driven() || !called);
  ASSERT_TRUE(TurnUntil([&] { return called.load(); }));
  EXPECT_EQ(text, "text");
  EXPECT_EQ(caller == starter, runtime.is_driven());
}

TEST_P(OperationTest, CallsAFunctionThatCannotBeCopied) {
  std::promise<int> promise;
  std::future<int> number = promise.get_future();
  mount.ReadFile("absent").Then([promise = std::move(promise)](Result<std::string> result) mutable {
    promise.set_value(result ? 0 : result.error().number);
  });
  EXPECT_EQ(Await(std::move(number)), ENOENT);
}

TEST_P(OperationTest, GivesAFuture) {
  mount.WriteFile("a", "text").Get().value();
  EXPECT_EQ(Await(mount.ReadFile("a").Future()).value(), "text");
  EXPECT_EQ(NumberOf(Await(mount.ReadFile("absent").Future())), ENOENT);
}

TEST_P(OperationTest, ResumesCoroutinesOfAnyType) {
  std::atomic<bool> done = false;
  std::string text;
  int number = 0;
  const auto run = [&](Mount& m) -> Background {
    const Result<> written = co_await m.WriteFile("a", "text");
    EXPECT_TRUE(written);
    Operation<std::string> read = m.ReadFile("a");
    text = (co_await std::move(read)).value();
    const Result<Attributes> absent = co_await m.GetAttributes("absent");
    number = absent.error().number;
    done = true;
  };
  run(mount);
  ASSERT_TRUE(TurnUntil([&] { return done.load(); }));
  EXPECT_EQ(text, "text");
  EXPECT_EQ(number, ENOENT);
}

TEST_P(OperationTest, ACoroutineOwnsWhatItOpens) {
  std::promise<std::string> promise;
  std::future<std::string> future = promise.get_future();
  const auto run = [](Mount& m, std::promise<std::string> out) -> Background {
    std::string text(4, ' ');
    {
      Result<File> file = co_await m.OpenFile("a", O_RDWR | O_CREAT);
      EXPECT_TRUE(file);
      const Result<> written = co_await file->Write(0, "1234");
      EXPECT_TRUE(written);
      const Result<size_t> read = co_await file->Read(0, text);
      EXPECT_EQ(read.value(), 4u);
    }
    out.set_value(text);
  };
  run(mount, std::move(promise));
  EXPECT_EQ(Await(std::move(future)), "1234");
}

TEST_P(OperationTest, BeginsOnlyWhenItIsUsed) {
  {
    [[maybe_unused]] const Operation<> never = mount.MakeDirectory("never");
  }
  Operation<> later = mount.MakeDirectory("later");
  EXPECT_EQ(NumberOf(mount.GetAttributes("later").Get()), ENOENT);
  later.Get().value();
  EXPECT_TRUE(mount.GetAttributes("later").Get());
  EXPECT_EQ(NumberOf(mount.GetAttributes("never").Get()), ENOENT);
}

TEST_P(OperationTest, BeginsOnce) {
  Operation<> operation = mount.Ping();
  EXPECT_TRUE(operation.Get());
  EXPECT_EQ(NumberOf(operation.Get()), EINVAL);
  EXPECT_EQ(NumberOf(operation.Future().get()), EINVAL);
  std::optional<Result<>> result;
  operation.Then([&](Result<> failed) { result.emplace(std::move(failed)); });
  ASSERT_TRUE(result);
  EXPECT_EQ(NumberOf(*result), EINVAL);
}

TEST_P(OperationTest, CopiesTexts) {
  std::string name = "a";
  Operation<> write = mount.WriteFile(name, "text");
  name = "b";
  write.Get().value();
  EXPECT_TRUE(mount.GetAttributes("a").Get());
}

TEST_P(OperationTest, GetFailsInACallback) {
  std::promise<int> promise;
  std::future<int> number = promise.get_future();
  mount.Ping().Then([&](const Result<>&) {
    const Result<> nested = mount.Ping().Get();
    promise.set_value(nested ? 0 : nested.error().number);
  });
  EXPECT_EQ(Await(std::move(number)), EDEADLK);
}

TEST_P(OperationTest, ACallbackStartsOperations) {
  std::promise<std::string> promise;
  std::future<std::string> text = promise.get_future();
  mount.WriteFile("a", "text").Then([&](const Result<>& written) {
    EXPECT_TRUE(written);
    mount.ReadFile("a").Then([&](Result<std::string> read) { promise.set_value(std::move(read).value()); });
  });
  EXPECT_EQ(Await(std::move(text)), "text");
}

TEST_P(OperationTest, EmptyObjectsFail) {
  Mount moved = std::move(mount);
  EXPECT_FALSE(mount.is_open());
  EXPECT_EQ(mount.handle(), nullptr);
  EXPECT_EQ(NumberOf(mount.Ping().Get()), EBADF);
  EXPECT_EQ(NumberOf(mount.Close().Get()), EBADF);
  EXPECT_EQ(NumberOf(mount.OpenFile("a", O_RDONLY).Get()), EBADF);
  EXPECT_EQ(NumberOf(mount.Download("a", 0).Future().get()), EBADF);
  File file = moved.OpenFile("a", O_RDWR | O_CREAT).Get().value();
  Operation<> late = file.Sync();
  file.Close().Get().value();
  EXPECT_EQ(NumberOf(late.Get()), EBADF);
  EXPECT_EQ(NumberOf(file.Sync().Get()), EBADF);
  EXPECT_EQ(NumberOf(file.Lock().Future().get()), EBADF);
}

TEST_P(OperationTest, ManyThreadsUseAMount) {
  if (runtime.is_driven()) return;  // one thread at a time
  mount.WriteFile("a", "text").Get().value();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        if (mount.ReadFile("a").Get().value() == "text") ++right;
        if (mount.ReadFile("a").Future().get().value() == "text") ++right;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(right, 400);
}

TEST(RuntimeTest, TellsWrongOptions) {
  const Result<Runtime> wrong = Runtime::Make({.threads = 100'000});
  EXPECT_EQ(NumberOf(wrong), EINVAL);
  EXPECT_EQ(NumberOf(Runtime::Make({.rdma = "carrier pigeons"})), EINVAL);
}

TEST(RuntimeTest, TellsWrongUrls) {
  const Runtime runtime = Runtime::Make().value();
  EXPECT_EQ(NumberOf(Mount::Open(runtime, "http://localhost/").Get()), EINVAL);
  EXPECT_EQ(NumberOf(Mount::Open(runtime, "nfs://127.0.0.1:1/?noresvport&timeout=5").Get()), ECONNREFUSED);
}

TEST(RuntimeTest, OnlyADrivenRuntimeDispatches) {
  Runtime threaded = Runtime::Make().value();
  EXPECT_FALSE(threaded.is_driven());
  EXPECT_EQ(NumberOf(threaded.descriptor()), EINVAL);
  EXPECT_EQ(NumberOf(threaded.Dispatch()), EINVAL);
  Runtime driven = Runtime::Make({.threads = 0}).value();
  EXPECT_TRUE(driven.is_driven());
  EXPECT_GE(driven.descriptor().value(), 0);
  EXPECT_EQ(driven.Dispatch().value(), 0u);
  // Without operations it does not wait.
  EXPECT_EQ(driven.Dispatch(kNoLimit).value(), 0u);
}

TEST(RuntimeTest, AnEventLoopOfTheProgramDrivesIt) {
  const LoopbackServer server;
  Runtime runtime = Runtime::Make({.threads = 0}).value();
  const Mount mount = Mount::Open(runtime, server.Url()).Get().value();
  bool done = false;
  mount.Ping().Then([&](const Result<>& result) {
    EXPECT_TRUE(result);
    EXPECT_EQ(NumberOf(runtime.Dispatch()), EDEADLK);
    done = true;
  });
  while (!done) {
    pollfd ready{runtime.descriptor().value(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, kPatience * 1000), 1);
    (void)runtime.Dispatch().value();
  }
}

TEST(RuntimeTest, GivesItsMessagesToAFunction) {
  std::atomic<int> messages = 0;
  Runtime runtime = Runtime::Make({.log =
                                       [&](penstock::LogLevel, std::string_view module, std::string_view message) {
                                         if (!module.empty() && !message.empty()) ++messages;
                                       },
                                   .log_level = penstock::LogLevel::kDebug})
                        .value();
  {
    const LoopbackServer server;
    Mount mount = Mount::Open(runtime, server.Url("3")).Get().value();
    mount.Close().Get().value();
  }
  EXPECT_GT(messages, 0);
}

TEST(RuntimeTest, TellsItsVersion) { EXPECT_FALSE(penstock::LibraryVersion().empty()); }

}  // namespace
}  // namespace penstock_test
