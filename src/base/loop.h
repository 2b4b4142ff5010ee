// The event loop of one thread: what a connection and everything that serves it live on.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/buffer.h"
#include "base/task.h"
#include "base/timer.h"

namespace penstock {

// Not thread-safe, but for Post() and Stop(). Run() is called by one thread, the loop's.
class Loop : public TimerService {
 public:
  Loop() = default;

  asio::io_context& context() { return context_; }
  BufferPool& buffers() { return buffers_; }

  // Runs what is posted and what becomes ready until Stop(), or until nothing is left after Finish().
  void Run();
  // On the loop: Run() returns once nothing is under way any more, so that what has been closed can come to its end.
  void Finish() { work_.reset(); }
  // Any thread. Run() returns soon after.
  void Stop() { context_.stop(); }

  // Any thread: runs `function` on the loop, later.
  template <class Function>
  void Post(Function&& function) {
    asio::post(context_, std::forward<Function>(function));
  }

  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override;

 private:
  asio::io_context context_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;  // while Run() is to wait for more
  BufferPool buffers_;
};

// co_await SwitchTo(loop): goes on, on that loop; at once where it is there already. The loop must run until then.
inline auto SwitchTo(Loop& loop) {
  struct Awaiter {
    Loop& loop;
    bool await_ready() const noexcept { return loop.context().get_executor().running_in_this_thread(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      loop.Post([waiter] { waiter.resume(); });
    }
    void await_resume() const noexcept {}
  };
  return Awaiter{loop};
}

// co_await Offload(loop, pool, f): runs f() on a thread of `pool` while `loop` goes on, and resumes on `loop` with what
// it returned. For calls that block. `loop` and `pool` must outlive the call. Where one of them is null (a simulation has
// no threads) f() runs at once.
template <class Function>
auto Offload(Loop* loop, asio::thread_pool* pool, Function function) {
  using T = std::invoke_result_t<Function&>;
  struct Awaiter {
    Loop* loop;
    asio::thread_pool* pool;
    Function function;
    std::optional<T> result;

    bool await_ready() {
      if (loop && pool) return false;
      result.emplace(function());
      return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      asio::post(*pool, [this, waiter] {
        result.emplace(function());
        loop->Post([waiter] { waiter.resume(); });
      });
    }
    T await_resume() { return std::move(*result); }
  };
  return Awaiter{loop, pool, std::move(function), {}};
}
template <class Function>
auto Offload(Loop& loop, asio::thread_pool& pool, Function function) {
  return Offload(&loop, &pool, std::move(function));
}

}  // namespace penstock
