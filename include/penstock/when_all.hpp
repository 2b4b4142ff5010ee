/**
 * @file
 * Several operations or tasks at the same time.
 */
#ifndef PENSTOCK_WHEN_ALL_HPP
#define PENSTOCK_WHEN_ALL_HPP

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/detail/operation_state.hpp"
#include "penstock/operation.hpp"
#include "penstock/result.hpp"
#include "penstock/task.hpp"

namespace penstock::inline v1 {

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
