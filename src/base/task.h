// Coroutines: Task<T> is started by co_await, runs on the caller's thread, and gives its T back to the caller.
//
// A request's life is one coroutine, so starting and finishing one must cost nothing that matters: frames come from a
// per-thread recycling allocator, and control passes by symmetric transfer, without executor or queue. What waits for
// the outside world waits on a OneShot<T>, which the event loop (or the simulator) sets.
//
// Rule that keeps frames from leaking: every OneShot is set in the end. Closing a connection completes what waits on
// it with an error; it never forgets it.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

namespace penstock {

// Recycles coroutine frames per thread. A frame may be freed on another thread than it was allocated on.
class FrameAllocator {
 public:
  static void* Allocate(size_t size);
  static void Free(void* frame, size_t size) noexcept;
};

template <class T = void>
class Task;

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();

  static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
  static void operator delete(void* frame, size_t size) noexcept { FrameAllocator::Free(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  // Nothing that a peer sends makes us throw; an exception that gets here is our own bug.
  void unhandled_exception() noexcept { std::terminate(); }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) noexcept {
      return finished.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T Take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void Take() {}
};

}  // namespace internal

// A lazily started coroutine. Owned by whoever holds the Task; destroying a Task that was never awaited is allowed,
// destroying one that is suspended half-way is not (see the rule above).
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> handle;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        handle.promise().continuation = caller;
        return handle;
      }
      T await_resume() { return handle.promise().Take(); }
    };
    return Awaiter{handle_};
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

struct Detached {
  struct promise_type {
    static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
    static void operator delete(void* frame, size_t size) noexcept { FrameAllocator::Free(frame, size); }
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { std::terminate(); }
    void return_void() {}
  };
};

inline Detached RunDetached(Task<void> task) { co_await std::move(task); }

}  // namespace internal

// Starts `task` now, on this thread; it frees itself when it is done. Returns at its first suspension.
inline void Spawn(Task<void> task) { internal::RunDetached(std::move(task)); }

// A value that arrives once, awaited by at most one coroutine. Set() may come before or after the wait; a waiting
// coroutine is resumed inside Set(), so the setter must be ready for anything that the waiter does next, including the
// destruction of this object. One thread only (that of the waiter).
template <class T = std::monostate>
class OneShot {
 public:
  OneShot() = default;
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;

  bool is_set() const { return value_.has_value(); }

  void Set(T value = {}) {
    assert(!value_);
    value_.emplace(std::move(value));
    if (auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
  }

  auto operator co_await() noexcept {
    struct Awaiter {
      OneShot& completion;
      bool await_ready() noexcept { return completion.is_set(); }
      void await_suspend(std::coroutine_handle<> waiter) noexcept {
        assert(!completion.waiter_);
        completion.waiter_ = waiter;
      }
      T await_resume() { return std::move(*completion.value_); }
    };
    return Awaiter{*this};
  }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace penstock
