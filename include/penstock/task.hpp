/**
 * @file
 * A small coroutine type for programs that have none, and functions that start tasks and wait for several operations.
 */
#ifndef PENSTOCK_TASK_HPP
#define PENSTOCK_TASK_HPP

#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/operation.hpp"
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

/** @cond internal */
namespace detail {

// Operations that are started together. It belongs to those of them that have not ended, and to the awaiter.
template <class T>
class Together {
 public:
  explicit Together(std::vector<Operation<T>> operations)
      : operations_(std::move(operations)),
        holders_(operations_.size() + 1),
        pending_(operations_.size() + 1),
        slots_(operations_.size()) {
    for (Slot& slot : slots_) slot.together = this;
  }

  // Returns false if all operations have ended already.
  bool Start(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    for (size_t i = 0; i < slots_.size(); ++i) operations_[i].Start(slots_[i]);
    // After that, the last operation resumes the waiter, which may destroy this object.
    return pending_.fetch_sub(1) != 1;
  }
  std::vector<Result<T>> Take() {
    std::vector<Result<T>> results;
    results.reserve(slots_.size());
    for (Slot& slot : slots_) results.push_back(*std::move(slot.result));
    return results;
  }
  // The awaiter is destroyed. If it was waiting, so is its coroutine.
  void Leave() noexcept {
    left_ = true;
    Release();
  }

 private:
  struct Slot final : Receiver<T> {
    Together* together = nullptr;
    std::optional<Result<T>> result;

    void Receive(Result<T> received) noexcept override {
      result.emplace(std::move(received));
      Together* const all = together;
      if (all->pending_.fetch_sub(1) == 1 && !all->left_) all->waiter_.resume();
      all->Release();
    }
  };

  void Release() noexcept {
    if (holders_.fetch_sub(1) == 1) delete this;
  }

  std::vector<Operation<T>> operations_;  // empty ones after Start()
  std::atomic<size_t> holders_;
  std::atomic<size_t> pending_;  // operations that have not ended, and Start()
  std::atomic<bool> left_ = false;
  std::coroutine_handle<> waiter_;
  std::vector<Slot> slots_;
};

template <class T>
class TogetherAwaiter {
 public:
  explicit TogetherAwaiter(std::vector<Operation<T>> operations) : together_(new Together<T>(std::move(operations))) {}
  ~TogetherAwaiter() { together_->Leave(); }
  TogetherAwaiter(const TogetherAwaiter&) = delete;
  TogetherAwaiter& operator=(const TogetherAwaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) const { return together_->Start(waiter); }
  std::vector<Result<T>> await_resume() const { return together_->Take(); }

 private:
  Together<T>* const together_;
};

// What tasks that run at the same time share. It is in the frame of the coroutine that waits for them.
struct Join {
  std::atomic<size_t> pending = 0;  // tasks that have not ended, and the function that starts them
  std::coroutine_handle<> waiter;
};

// A coroutine that runs one of several tasks.
class Branch {
 public:
  struct promise_type {
    template <class... Arguments>
    explicit promise_type(Join& joined, Arguments&... /*of the coroutine*/) noexcept : join(joined) {}

    struct FinalAwaiter {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> finished) const noexcept {
        Join& joined = finished.promise().join;
        // After that, the waiter may destroy this coroutine.
        if (joined.pending.fetch_sub(1) == 1) joined.waiter.resume();
      }
      void await_resume() const noexcept {}
    };

    Branch get_return_object() noexcept { return Branch(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalAwaiter final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }

    Join& join;
  };

  Branch(Branch&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Branch& operator=(Branch&&) = delete;
  ~Branch() {
    if (coroutine_) coroutine_.destroy();
  }
  void Start() const { coroutine_.resume(); }

 private:
  explicit Branch(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
struct Ending {
  std::optional<typename NotVoid<T>::type> value;
  std::exception_ptr exception;
};

template <class T>
Branch RunBranch(Join& /*join*/, Task<T> task, Ending<T>& ending) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
    } else {
      ending.value.emplace(co_await std::move(task));
    }
  } catch (...) {
    ending.exception = std::current_exception();
  }
}

class BranchesAwaiter {
 public:
  BranchesAwaiter(Join& join, const std::vector<Branch>& branches) noexcept : join_(join), branches_(branches) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) const {
    Join& join = join_;
    join.waiter = waiter;
    join.pending = branches_.size() + 1;
    for (const Branch& branch : branches_) branch.Start();
    return join.pending.fetch_sub(1) != 1;
  }
  void await_resume() const noexcept {}

 private:
  Join& join_;
  const std::vector<Branch>& branches_;
};

// What WhenAll() of tasks returns.
template <class T>
struct ListOf {
  using type = std::vector<T>;
};
template <>
struct ListOf<void> {
  using type = void;
};

}  // namespace detail
/** @endcond */

/**
 * Runs operations at the same time. The task returns their results in the order of the operations, when all of them
 * have ended. The operations begin when the task begins.
 */
template <class T>
Task<std::vector<Result<T>>> WhenAll(std::vector<Operation<T>> operations) {
  detail::TogetherAwaiter<T> all(std::move(operations));
  co_return co_await all;
}

/**
 * Runs tasks at the same time, each on the threads on which its operations go on. The task returns what the tasks
 * return, in their order, when all of them have ended: a `std::vector<T>`, or nothing if T is void. If tasks throw
 * exceptions, it throws the one of the first of them in the order of the tasks. The tasks begin when this task begins.
 */
template <class T>
Task<typename detail::ListOf<T>::type> WhenAll(std::vector<Task<T>> tasks) {
  std::vector<detail::Ending<T>> endings(tasks.size());
  detail::Join join;
  std::vector<detail::Branch> branches;
  branches.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    branches.push_back(detail::RunBranch(join, std::move(tasks[i]), endings[i]));
  }
  detail::BranchesAwaiter all(join, branches);
  co_await all;
  for (const detail::Ending<T>& ending : endings) {
    if (ending.exception) std::rethrow_exception(ending.exception);
  }
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(endings.size());
    for (detail::Ending<T>& ending : endings) values.push_back(*std::move(ending.value));
    co_return values;
  }
}

}  // namespace penstock::inline v1

#endif
