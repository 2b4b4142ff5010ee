// The event loop of one thread. A connection and all objects that serve it live on one loop.
#pragma once

#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/task.h"
#include "base/timer.h"

namespace asio {
class io_context;
}  // namespace asio

namespace penstock {

// Only Post(), Stop() and IsCurrent() are thread-safe. One thread, the loop's, calls Run().
class Loop final : public TimerService {
 public:
  Loop();
  ~Loop() override;

  // For sockets. Its users include <asio/io_context.hpp>.
  asio::io_context& context();
  BufferPool& buffers() { return buffers_; }

  // Runs posted functions and handlers of ready sockets and timers until Stop(), or until none is left after Finish().
  // Meanwhile SIGPIPE and SIGXFSZ are blocked in this thread: see WritesWithoutSignals.
  void Run();
  // Call on the loop. Run() returns once no work is left, so that closed connections can finish.
  void Finish();
  // Makes Run() return soon. Thread-safe.
  void Stop();

  // Runs `function` on the loop, later. Thread-safe. A coroutine handle, or a lambda with at most three words of
  // captures, needs no allocation.
  void Post(std::move_only_function<void()> function);
  // Post() calls `on_post` after it has posted, on its own thread; an empty function ends that. For DrivenLoop. Call it
  // while no other thread uses the loop.
  void SetOnPost(std::function<void()> on_post) { on_post_ = std::move(on_post); }
  // Returns true if the calling thread runs this loop. Thread-safe.
  bool IsCurrent() const;

  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override;

  // Memory of buffers() goes back to the system when it has been idle for one to two of these intervals.
  static constexpr Duration kTrimInterval = std::chrono::seconds(2);

 private:
  void Trim();

  struct State;
  const std::unique_ptr<State> state_;  // Asio's part
  BufferPool buffers_;
  const std::unique_ptr<Timer> trim_;
  bool finishing_ = false;
  std::function<void()> on_post_;
};

// co_await SwitchTo(loop) resumes the coroutine on `loop`, at once if it runs there already. The loop must still run.
inline auto SwitchTo(Loop& loop) {
  struct Awaiter {
    Loop& loop;
    bool await_ready() const noexcept { return loop.IsCurrent(); }
    void await_suspend(std::coroutine_handle<> waiter) { loop.Post(waiter); }
    void await_resume() const noexcept {}
  };
  return Awaiter{loop};
}

// co_await NextTurn(loop) continues after all other work that is ready on the loop. The coroutine runs on this loop.
inline auto NextTurn(Loop& loop) {
  struct Awaiter {
    Loop& loop;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { loop.Post(waiter); }
    void await_resume() const noexcept {}
  };
  return Awaiter{loop};
}

}  // namespace penstock
