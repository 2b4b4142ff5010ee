// For tests of the C++ API: a fixture with a server, a runtime and a mount.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "library/cpp/loopback_test_support.h"
#include "penstock/penstock.hpp"

namespace penstock_test {

// Whether ThreadSanitizer watches this program.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

using penstock::Error;
using penstock::File;
using penstock::Mount;
using penstock::Operation;
using penstock::Result;
using penstock::Runtime;
using penstock::Task;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Returns the number of the error of a result that must be a failure.
template <class T>
int NumberOf(const Result<T>& result) {
  EXPECT_FALSE(result);
  if (result) return 0;
  EXPECT_FALSE(result.error().message.empty());
  return result.error().number;
}

// A number of threads of the runtime is the parameter. Zero: the test drives it.
class MountedTest : public testing::TestWithParam<unsigned> {
 protected:
  // ThreadSanitizer does not see how libstdc++ counts the users of an exception that passes from one thread to another.
  bool misjudges_exceptions() const { return kThreadSanitizer && !runtime.is_driven(); }
  static Runtime MakeRuntime() { return Runtime::Make({.threads = GetParam()}).value(); }

  // Waits until `done` returns true, and dispatches meanwhile. Returns false after kPatience.
  [[nodiscard]] bool TurnUntil(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + seconds(kPatience);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      const bool has_waited = runtime.is_driven() && runtime.Dispatch(milliseconds(1)).value() > 0;
      if (!has_waited) std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  template <class T>
  T Await(std::future<T> future) {
    EXPECT_TRUE(TurnUntil([&] { return future.wait_for(seconds(0)) == std::future_status::ready; }));
    return future.get();
  }
  File Create(std::string_view name, std::string_view text) {
    mount.WriteFile(name, text).Get().value();
    return mount.OpenFile(name, O_RDWR).Get().value();
  }

  LoopbackServer server;
  Runtime runtime = MakeRuntime();
  Mount mount = Mount::Open(runtime, server.Url()).Get().value();
};

// The name of the parameter in names of tests.
inline std::string KindOfRuntime(const testing::TestParamInfo<unsigned>& threads) {
  return threads.param == 0 ? "Driven" : "Threads" + std::to_string(threads.param);
}

}  // namespace penstock_test
