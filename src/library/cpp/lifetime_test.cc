// Objects that are destroyed in any order.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "library/cpp/test_support.h"
#include "penstock/penstock.h"
#include "penstock/penstock.hpp"

namespace penstock_test {
namespace {

using penstock::Start;

class LifetimeTest : public testing::TestWithParam<unsigned> {
 protected:
  LifetimeTest() {
    runtime.emplace(Runtime::Make({.threads = GetParam()}).value());
    mount.emplace(Mount::Open(*runtime, server.Url()).Get().value());
    mount->WriteFile("file", "text").Get().value();
    file.emplace(mount->OpenFile("file", O_RDWR).Get().value());
  }
  ~LifetimeTest() override { server.ReleaseReads(); }

  LoopbackServer server;
  std::optional<Runtime> runtime;
  std::optional<Mount> mount;
  std::optional<File> file;
  std::string text = std::string(4, ' ');
};

INSTANTIATE_TEST_SUITE_P(Runtimes, LifetimeTest, testing::Values(0, 1), KindOfRuntime);

TEST_P(LifetimeTest, AFileKeepsItsMountAndRuntime) {
  runtime.reset();
  mount.reset();
  EXPECT_EQ(file->Read(0, text).Get().value(), 4u);
  EXPECT_EQ(text, "text");
  file.reset();
}

TEST_P(LifetimeTest, AMountKeepsItsRuntime) {
  file.reset();
  runtime.reset();
  EXPECT_EQ(mount->ReadFile("file").Get().value(), "text");
  mount->Close().Get().value();
  mount.reset();
}

TEST_P(LifetimeTest, AnOperationThatHasNotBegunKeepsItsObjects) {
  Operation<size_t> read = file->Read(0, text);
  file.reset();
  mount.reset();
  runtime.reset();
  EXPECT_EQ(read.Get().value(), 4u);
  Operation<std::string> never = Mount::Open(Runtime::Make().value(), server.Url()).Get().value().ReadFile("file");
}

TEST_P(LifetimeTest, TheRuntimeWaitsForOperations) {
  std::optional<Result<size_t>> result;
  file->Read(0, text).Then([&](Result<size_t> read) { result.emplace(std::move(read)); });
  file.reset();
  mount.reset();
  runtime.reset();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->value(), 4u);
}

TEST_P(LifetimeTest, TheRuntimeWaitsForChainsOfOperations) {
  int count = 0;
  const auto run = [](Mount m, File f, int& counted) -> Task<> {
    for (int i = 0; i < 20; ++i) {
      std::string into(4, ' ');
      const Result<size_t> read = co_await f.Read(0, into);
      EXPECT_EQ(read.value(), 4u);
      const Result<> ping = co_await m.Ping();
      EXPECT_TRUE(ping);
      ++counted;
    }
  };
  const std::future<void> done = Start(run(std::move(*mount), std::move(*file), count));
  file.reset();
  mount.reset();
  runtime.reset();
  EXPECT_EQ(count, 20);
}

TEST_P(LifetimeTest, CallbacksDestroyObjects) {
  mount->Ping().Then([m = std::move(*mount), f = std::move(*file)](const Result<>& result) mutable {
    EXPECT_TRUE(result);
    {
      const Mount mount_here = std::move(m);
    }
    {
      const File file_here = std::move(f);
    }
  });
  mount.reset();
  file.reset();
  runtime.reset();
}

TEST_P(LifetimeTest, ACallbackDestroysItsRuntime) {
  std::promise<void> promise;
  std::future<void> destroyed = promise.get_future();
  Operation<> ping = mount->Ping();
  file.reset();
  ping.Then([&](const Result<>&) {
    runtime.reset();
    promise.set_value();
  });
  if (GetParam() == 0) {
    // A function that blocks calls the callback. The mount keeps the runtime.
    mount->Ping().Get().value();
    mount->Ping().Get().value();
  }
  destroyed.get();
  EXPECT_TRUE(mount->Ping().Get());
}

TEST_P(LifetimeTest, ACallbackDestroysTheLastObjectOfARuntime) {
  std::promise<void> promise;
  std::future<void> destroyed = promise.get_future();
  file.reset();
  struct Everything {
    Runtime runtime;
    Mount mount;
    std::promise<void> promise;
  };
  auto everything =
      std::make_shared<Everything>(Everything{*std::move(runtime), *std::move(mount), std::move(promise)});
  runtime.reset();
  mount.reset();
  Runtime* const driven = &everything->runtime;
  Operation<> ping = everything->mount.Ping();
  const bool is_driven = driven->is_driven();
  ping.Then([everything = std::move(everything)](const Result<>&) mutable {
    std::promise<void> done = std::move(everything->promise);
    everything.reset();
    done.set_value();
  });
  if (is_driven) {
    while (destroyed.wait_for(seconds(0)) != std::future_status::ready) {
      if (driven->Dispatch(seconds(kPatience)).value() > 0) break;
    }
  }
  destroyed.get();
}

TEST_P(LifetimeTest, CloseFailsWhileOperationsAreUnderWay) {
  server.HoldReads(1);
  std::future<Result<size_t>> read = file->Read(0, text).Future();
  EXPECT_EQ(NumberOf(mount->Close().Get()), EBUSY);
  EXPECT_FALSE(mount->is_open());
  EXPECT_EQ(NumberOf(file->Close().Get()), EBUSY);
  server.ReleaseReads();
  // Everything is closed when the operation has ended.
  runtime.reset();
  EXPECT_EQ(read.get().value(), 4u);
}

TEST_P(LifetimeTest, ClosingIsAnOperationLikeOthers) {
  std::vector<std::future<Result<>>> closed;
  {
    [[maybe_unused]] const Operation<> never = file->Close();
  }  // closes as the destructor does
  EXPECT_FALSE(file->is_open());
  for (int i = 0; i < 5; ++i) {
    File opened = mount->OpenFile("file", O_RDWR).Get().value();
    closed.push_back(opened.Close().Future());
  }
  runtime.reset();
  for (auto& each : closed) EXPECT_TRUE(each.get());
  EXPECT_TRUE(mount->Close().Get());
}

TEST_P(LifetimeTest, AssignmentClosesTheOldObject) {
  File other = mount->OpenFile("file", O_RDONLY).Get().value();
  *file = std::move(other);
  Mount second = Mount::Open(*runtime, server.Url()).Get().value();
  *mount = std::move(second);
  // The first mount is kept by the file.
  EXPECT_EQ(file->Read(0, text).Get().value(), 4u);
  *runtime = Runtime::Make({.threads = GetParam()}).value();
  EXPECT_TRUE(mount->Ping().Get());
}

TEST_P(LifetimeTest, ACoroutineThatIsDestroyedWhileItWaitsIsNotResumed) {
  if (GetParam() != 0) return;  // another thread could be about to resume it
  server.HoldReads(1);
  bool resumed = false;
  {
    const auto run = [&](File& f) -> Task<> {
      const Result<size_t> read = co_await f.Read(0, text);
      resumed = true;
    };
    Task<> task = run(*file);
    // A coroutine of the test begins the task, and is destroyed with it.
    struct Owner {
      struct promise_type {
        Owner get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
      };
      std::coroutine_handle<promise_type> handle;
    };
    const auto own = [](Task<> owned) -> Owner { co_await std::move(owned); };
    const Owner owner = own(std::move(task));
    owner.handle.destroy();
  }
  server.ReleaseReads();
  file.reset();
  mount.reset();
  runtime.reset();
  EXPECT_FALSE(resumed);
}

TEST_P(LifetimeTest, WhenAllThatIsDestroyedWhileItWaitsIsNotResumed) {
  if (GetParam() != 0) return;  // as above
  server.HoldReads(3);
  bool resumed = false;
  struct Owner {
    struct promise_type {
      Owner get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_never initial_suspend() { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
  };
  const auto own = [&]() -> Owner {
    std::vector<Operation<size_t>> reads;
    for (int i = 0; i < 3; ++i) reads.push_back(file->Read(0, text));
    Task<std::vector<Result<size_t>>> all = penstock::WhenAll(std::move(reads));
    (void)co_await std::move(all);
    resumed = true;
  };
  own().handle.destroy();
  server.ReleaseReads();
  file.reset();
  mount.reset();
  runtime.reset();
  EXPECT_FALSE(resumed);
}

TEST_P(LifetimeTest, AResultThatNobodyWantsIsClosed) {
  mount->OpenFile("file", O_RDWR).Then([](const Result<File>& opened) { EXPECT_TRUE(opened); });
  (void)mount->OpenFile("file", O_RDWR).Future();
  (void)Mount::Open(*runtime, server.Url()).Future();
}

// The work of a mount that was cancelled may go on until the server answers. It must not keep the runtime.
TEST_P(LifetimeTest, AMountThatWasCancelledDoesNotKeepItsRuntime) {
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent, 5), 0);
  ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string url = "nfs://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/?noresvport";

  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = GetParam();
  penstock_runtime* own = nullptr;
  ASSERT_EQ(penstock_runtime_new(&options, &own), 0);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 50;
  penstock_mount* opened = nullptr;
  EXPECT_EQ(penstock_mount_open(own, url.c_str(), nullptr, &opened, &call), -ETIMEDOUT);
  EXPECT_EQ(penstock_runtime_free(own), 0);
  ::close(silent);
}

TEST_P(LifetimeTest, AChildLeavesTheObjectsOfItsParentAlone) {
  std::future<Result<size_t>> read;
  server.HoldReads(1);
  read = file->Read(0, text).Future();
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<> ping = mount->Ping().Get();
    const bool refused = !ping && ping.error().number == EPERM;
    file.reset();
    mount.reset();
    runtime.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  server.ReleaseReads();
  EXPECT_TRUE(mount->Ping().Get());
  runtime.reset();
  EXPECT_EQ(read.get().value(), 4u);
}

}  // namespace
}  // namespace penstock_test
