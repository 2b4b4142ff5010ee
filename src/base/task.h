// Coroutines: co_await starts a Task<T>, which runs on the caller's thread and returns a T.
//
// Each request is one coroutine, so starting and finishing a coroutine must be cheap. A per-thread allocator recycles
// frames, and control passes by symmetric transfer, without an executor or a queue. To wait for an external event, a
// coroutine awaits a OneShot<T>, which the event loop or the simulator sets.
//
// One rule keeps frames from leaking: every OneShot is set in the end. A connection that closes sets the OneShots that
// wait for it to an error.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

namespace penstock {

// Recycles coroutine frames per thread. Any thread may free a frame.
class FrameAllocator {
 public:
  static void* Allocate(size_t size);
  static void Free(void* frame, size_t size) noexcept;
};

// The same for containers of few elements that come and go with each request.
template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as allocators are
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  T* allocate(size_t count) { return static_cast<T*>(FrameAllocator::Allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { FrameAllocator::Free(memory, count * sizeof(T)); }
  template <class U>
  bool operator==(const RecyclingAllocator<U>&) const {
    return true;
  }
};

template <class T = void>
class Task;

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();

  static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
  static void operator delete(void* frame, size_t size) noexcept { FrameAllocator::Free(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  // No input from a peer makes us throw, so an exception here is our own bug.
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

// A lazily started coroutine. The Task owns the frame. A Task that was never awaited may be destroyed; a suspended one
// may not (see the rule above).
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

// Starts `task` on this thread, and returns at its first suspension. The task frees itself when it is done.
inline void Spawn(Task<void> task) { internal::RunDetached(std::move(task)); }

// A value that is set once and awaited by at most one coroutine. Set() may come before or after the wait. Set() resumes
// a waiting coroutine before it returns, and the coroutine may destroy this object. Not thread-safe.
template <class T = std::monostate>
class OneShot {
 public:
  OneShot() = default;
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;

  bool is_set() const { return value_.has_value(); }

  void Set(T value = {}) { Emplace(std::move(value)); }
  // Sets a value that is made in place.
  template <class... Arguments>
  void Emplace(Arguments&&... arguments) {
    assert(!value_);
    value_.emplace(std::forward<Arguments>(arguments)...);
    if (auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
  }

  auto operator co_await() noexcept {
    struct Awaiter {
      OneShot& event;
      bool await_ready() noexcept { return event.is_set(); }
      void await_suspend(std::coroutine_handle<> waiter) noexcept {
        assert(!event.waiter_);
        event.waiter_ = waiter;
      }
      T await_resume() { return std::move(*event.value_); }
    };
    return Awaiter{*this};
  }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace penstock
