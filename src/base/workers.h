// Threads for calls that block: a disk, a directory service, a long computation.
#pragma once

#include <coroutine>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/loop.h"

namespace asio {
class thread_pool;
}  // namespace asio

namespace penstock {

// A pool of threads that run functions in the order in which they were posted.
class Workers {
 public:
  explicit Workers(size_t threads);
  // Ends the threads as soon as the functions return that run now. Functions that have not begun are destroyed.
  ~Workers();

  // Any thread: runs `function` on a thread of the pool, later.
  void Post(std::move_only_function<void()> function);
  // Waits until every posted function has run, and ends the threads. Functions posted later do not run.
  void Join();

 private:
  const std::unique_ptr<asio::thread_pool> pool_;
};

// co_await Offload(loop, workers, f): runs f() on a thread of `workers` while `loop` goes on, and resumes on `loop`
// with what it returned. For calls that block. `loop` and `workers` must outlive the call. Where one of them is null (a
// simulation has no threads) f() runs at once.
template <class Function>
auto Offload(Loop* loop, Workers* workers, Function function) {
  using T = std::invoke_result_t<Function&>;
  struct Awaiter {
    Loop* loop;
    Workers* workers;
    Function function;
    std::optional<T> result;

    bool await_ready() {
      if (loop && workers) return false;
      result.emplace(function());
      return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      workers->Post([this, waiter] {
        result.emplace(function());
        loop->Post(waiter);
      });
    }
    T await_resume() { return std::move(*result); }
  };
  return Awaiter{loop, workers, std::move(function), {}};
}
template <class Function>
auto Offload(Loop& loop, Workers& workers, Function function) {
  return Offload(&loop, &workers, std::move(function));
}

}  // namespace penstock
