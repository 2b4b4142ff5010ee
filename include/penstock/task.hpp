/**
 * @file
 * A small coroutine type for programs that have none.
 */
#ifndef PENSTOCK_TASK_HPP
#define PENSTOCK_TASK_HPP

#include <cassert>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "penstock/detail/runtime_core.hpp"
#include "penstock/result.hpp"
#include "penstock/runtime.hpp"

namespace penstock::inline v1 {

template <class T>
class Task;

/** @cond internal */
namespace detail {

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
    return finished.promise().continuation;
  }
  void await_resume() const noexcept {}
};

class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

  std::coroutine_handle<> continuation = std::noop_coroutine();

 protected:
  void Rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::exception_ptr exception_;
};

template <class T>
class TaskPromise final : public TaskPromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <class U = T>
    requires std::is_constructible_v<T, U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T Take() {
    Rethrow();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void Take() const { Rethrow(); }
};

}  // namespace detail
/** @endcond */

/**
 * A coroutine that returns a T. It begins when another coroutine awaits it (`co_await std::move(task)`), or by Start()
 * or SyncWait(). It goes on on the threads on which the operations go on that it awaits. An exception that leaves it
 * goes to its caller.
 *
 * A coroutine's parameters that are references or views, and the captures of a lambda that is a coroutine, must outlive
 * the task.
 *
 * A task that has not begun may be destroyed. One that waits for an operation may be destroyed under the conditions of
 * Operation::operator co_await().
 */
template <class T = void>
class [[nodiscard]] Task {
 public:
  /** For the compiler. */
  using promise_type = detail::TaskPromise<T>;

  /** Moves the task. The other object is empty afterwards. */
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  /** Destroys the task of this object, and moves the other one here. */
  Task& operator=(Task&& other) noexcept {
    Task old(std::move(*this));
    coroutine_ = std::exchange(other.coroutine_, nullptr);
    return *this;
  }
  /** Destroys the coroutine. */
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  /** @cond internal */
  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
      coroutine_.promise().continuation = caller;
      return coroutine_;
    }
    T await_resume() const { return coroutine_.promise().Take(); }

   private:
    std::coroutine_handle<promise_type> coroutine_;
  };
  /** @endcond */

  /** Runs the task, once. Returns what it returns, or throws what it throws. */
  Awaiter operator co_await() && noexcept {
    assert(coroutine_ && !coroutine_.done());
    return Awaiter(coroutine_);
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

/** @cond internal */
namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// A coroutine that belongs to itself.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

template <class T>
struct NotVoid {
  using type = T;
};
template <>
struct NotVoid<void> {
  using type = std::monostate;
};

// Destroys the task, with its parameters, before it makes the future ready.
template <class T>
Detached RunTask(Task<T> task, std::promise<T> promise) {
  std::optional<typename NotVoid<T>::type> value;
  std::exception_ptr exception;
  try {
    Task<T> running = std::move(task);
    if constexpr (std::is_void_v<T>) {
      co_await std::move(running);
      value.emplace();
    } else {
      value.emplace(co_await std::move(running));
    }
  } catch (...) {
    exception = std::current_exception();
  }
  if (exception) {
    promise.set_exception(std::move(exception));
  } else if constexpr (std::is_void_v<T>) {
    promise.set_value();
  } else {
    promise.set_value(*std::move(value));
  }
}

}  // namespace detail
/** @endcond */

/**
 * Starts a task on this thread, which returns when the task waits for the first time. The future gets what the task
 * returns or throws. The task is destroyed before the future is ready.
 */
template <class T>
std::future<T> Start(Task<T> task) {
  std::promise<T> promise;
  std::future<T> future = promise.get_future();
  detail::RunTask(std::move(task), std::move(promise));
  return future;
}

/**
 * Starts a task on this thread, and blocks until it has ended. In a runtime that the program drives, it dispatches
 * meanwhile. Returns what the task returns, or throws what it throws. Throws Failure with EDEADLK in a callback of the
 * runtime.
 *
 * @param runtime  The runtime of the operations that the task awaits.
 */
template <class T>
T SyncWait(Runtime& runtime, Task<T> task) {
  if (detail::callback_runtime && detail::callback_runtime->handle() == runtime.handle()) {
    throw Failure({EDEADLK, "a task cannot be waited for in a callback of its runtime"});
  }
  std::future<T> future = Start(std::move(task));
  if (runtime.is_driven()) {
    while (future.wait_for(std::chrono::seconds::zero()) != std::future_status::ready) {
      const size_t ended = runtime.Dispatch(kNoLimit).value();
      // Without an operation under way, the task waits for something else.
      if (ended == 0) future.wait_for(std::chrono::milliseconds(1));
    }
  }
  return future.get();
}

}  // namespace penstock::inline v1

#endif
