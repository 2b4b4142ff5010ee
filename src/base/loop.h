// The event loop of one thread: what a connection and everything that serves it live on.
#pragma once

#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>

#include "base/buffer.h"
#include "base/task.h"
#include "base/timer.h"

namespace asio {
class io_context;
}  // namespace asio

namespace penstock {

// Not thread-safe, but for Post() and Stop(). Run() is called by one thread, the loop's.
class Loop final : public TimerService {
 public:
  Loop();
  ~Loop() override;

  // For sockets; whoever uses it includes <asio/io_context.hpp>.
  asio::io_context& context();
  BufferPool& buffers() { return buffers_; }

  // Runs what is posted and what becomes ready until Stop(), or until nothing is left after Finish().
  void Run();
  // On the loop: Run() returns once nothing is under way any more, so that what has been closed can come to its end.
  void Finish();
  // Any thread. Run() returns soon after.
  void Stop();

  // Any thread: runs `function` on the loop, later. A coroutine handle, or a lambda with three words of captures, is
  // posted without an allocation of its own.
  void Post(std::move_only_function<void()> function);
  // Any thread: whether the caller runs on this loop.
  bool IsCurrent() const;

  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override;

  // Memory of buffers() that was idle for this time, and less than twice this time, goes back to the system.
  static constexpr Duration kTrimInterval = std::chrono::seconds(2);

 private:
  void Trim();

  struct State;
  const std::unique_ptr<State> state_;  // Asio's part
  BufferPool buffers_;
  const std::unique_ptr<Timer> trim_;
  bool finishing_ = false;
};

// co_await SwitchTo(loop): goes on, on that loop; at once where it is there already. The loop must run until then.
inline auto SwitchTo(Loop& loop) {
  struct Awaiter {
    Loop& loop;
    bool await_ready() const noexcept { return loop.IsCurrent(); }
    void await_suspend(std::coroutine_handle<> waiter) { loop.Post(waiter); }
    void await_resume() const noexcept {}
  };
  return Awaiter{loop};
}

}  // namespace penstock
