/**
 * @file
 * Operations: what the methods of mounts and files return.
 */
#ifndef PENSTOCK_OPERATION_HPP
#define PENSTOCK_OPERATION_HPP

#include <cerrno>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "penstock/detail/operation_state.hpp"
#include "penstock/detail/runtime_core.hpp"
#include "penstock/result.hpp"

namespace penstock::inline v1 {

/**
 * An operation that a method of a mount or file has prepared. Its arguments are in it; it has not begun. It begins,
 * once, in one of these ways:
 *
 * - `Get()` blocks and returns the result.
 * - `co_await std::move(operation)`, or `co_await file.Read(...)`, in a coroutine of any type, returns the result. The
 *   coroutine goes on on a thread of the runtime, or in Runtime::Dispatch().
 * - `Then(function)` calls the function with the result later.
 * - `Future()` returns a std::future of the result.
 *
 * An operation that is destroyed before that does nothing.
 *
 * **Memory.** Text and options are copied when the operation is made. Buffers of the program (`std::span`,
 * and std::string_view where data are written) are not copied. They must stay valid until the operation has ended:
 * until `Get()` has returned, the coroutine has gone on, the function has been called or the future is ready. This is
 * also true for operations that were cancelled.
 *
 * **Callbacks.** Functions of Then(), and coroutines that go on after a co_await, run on a thread of the runtime, which
 * serves other operations as well. They should not block. They may start operations. Get() fails in them with EDEADLK
 * if the operation belongs to the same runtime. Objects that are destroyed in them are closed in the background.
 *
 * **Order.** Operations that are under way at the same time may be executed in any order.
 *
 * **Threads.** An Operation object may be used by one thread at a time. It may be handed to another thread.
 */
template <class T = void>
class [[nodiscard]] Operation {
 public:
  using value_type = T; /**< The result is a Result<T>. */

  /** Moves the operation. The other object is empty afterwards. */
  Operation(Operation&&) noexcept = default;
  /** Moves the operation. The other object is empty afterwards. */
  Operation& operator=(Operation&&) noexcept = default;

  /**
   * Limits the time of the operation, from its beginning on. When the time is over, the operation ends with ETIMEDOUT.
   * The server may have executed it nevertheless, or may execute it later. A read or write with a time limit or a stop
   * token may copy its data once more, so that the end of the operation need not wait for the network.
   */
  template <class Rep, class Period>
  Operation& Within(std::chrono::duration<Rep, Period> time) & {
    if (state_) state_->set_timeout(detail::ToMilliseconds(time));
    return *this;
  }
  /** As above, for a chain of calls. */
  template <class Rep, class Period>
  Operation Within(std::chrono::duration<Rep, Period> time) && {
    Within(time);
    return std::move(*this);
  }

  /**
   * Ends the operation with ECANCELED when a stop is requested, also if it was requested before the operation begins.
   * The server may have executed the operation nevertheless, or may execute it later. In a runtime that the program
   * drives, the operation ends in the next call of Runtime::Dispatch(), or in the function that blocks.
   *
   * Any thread may request the stop, but no signal handler.
   */
  Operation& CancelledBy(std::stop_token token) & {
    if (state_) state_->set_stop_token(std::move(token));
    return *this;
  }
  /** As above, for a chain of calls. */
  Operation CancelledBy(std::stop_token token) && {
    CancelledBy(std::move(token));
    return std::move(*this);
  }

  /** Executes the operation, blocks until it has ended, and returns its result. This object is empty afterwards. */
  Result<T> Get() {
    const std::unique_ptr<State> state = std::move(state_);
    if (!state) return Used();
    return state->Run();
  }

  /**
   * Starts the operation. `function` is called with the Result<T> when the operation has ended: on a thread of the
   * runtime, in Runtime::Dispatch(), or in a function that blocks in a runtime that the program drives. If the
   * operation cannot start, `function` is called by Then() itself. An exception that leaves `function` ends the process
   * by std::terminate(). This object is empty afterwards.
   */
  template <class Function>
    requires std::invocable<Function, Result<T>>
  void Then(Function function) {
    class Caller final : public detail::Receiver<T> {
     public:
      explicit Caller(Function&& called) : function_(std::move(called)) {}
      void Receive(Result<T> result) noexcept override {
        std::move(function_)(std::move(result));
        delete this;
      }

     private:
      Function function_;
    };
    auto caller = std::make_unique<Caller>(std::move(function));
    Start(*caller.release());
  }

  /**
   * Starts the operation and returns the future of its result. In a runtime that the program drives, the future becomes
   * ready only in Runtime::Dispatch() and in functions that block: do not wait for it otherwise. This object is empty
   * afterwards.
   */
  std::future<Result<T>> Future() {
    class Promise final : public detail::Receiver<T> {
     public:
      std::future<Result<T>> future() { return promise_.get_future(); }
      void Receive(Result<T> result) noexcept override {
        promise_.set_value(std::move(result));
        delete this;
      }

     private:
      std::promise<Result<T>> promise_;
    };
    auto promise = std::make_unique<Promise>();
    std::future<Result<T>> future = promise->future();
    Start(*promise.release());
    return future;
  }

  /** @cond internal */
  class Awaiter final : detail::Receiver<T> {
   public:
    explicit Awaiter(std::unique_ptr<detail::OperationState<T>> state) noexcept : state_(std::move(state)) {}
    // A coroutine that is destroyed while it waits leaves the operation to itself.
    ~Awaiter() override {
      if (running_) running_->Abandon();
    }
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) {
      if (!state_) {
        result_.emplace(Used());
        return false;
      }
      waiter_ = waiter;
      running_ = state_.get();
      // After a success, another thread may have destroyed this object already.
      std::optional<Error> refusal = State::Start(std::move(state_), *this);
      if (!refusal) return true;
      running_ = nullptr;
      result_.emplace(*std::move(refusal));
      return false;
    }
    Result<T> await_resume() { return *std::move(result_); }

   private:
    void Receive(Result<T> result) noexcept override {
      running_ = nullptr;
      result_.emplace(std::move(result));
      const std::coroutine_handle<> waiter = waiter_;
      waiter.resume();
    }

    std::unique_ptr<detail::OperationState<T>> state_;
    detail::OperationState<T>* running_ = nullptr;
    std::coroutine_handle<> waiter_;
    std::optional<Result<T>> result_;
  };
  explicit Operation(std::unique_ptr<detail::OperationState<T>> state) noexcept : state_(std::move(state)) {}
  // Starts the operation. The receiver gets the result, also if the operation cannot start.
  void Start(detail::Receiver<T>& receiver) {
    if (!state_) {
      receiver.Receive(Used());
    } else if (std::optional<Error> refusal = State::Start(std::move(state_), receiver)) {
      receiver.Receive(*std::move(refusal));
    }
  }
  /** @endcond */

  /**
   * Starts the operation, and goes on with its result. If the operation cannot start, the coroutine goes on at once.
   * This object is empty afterwards.
   *
   * If the coroutine is destroyed while it waits, the operation goes on and its result is dropped. Only a program in
   * which no other thread can be about to resume the coroutine may do that, and the buffers of the operation must stay
   * valid.
   */
  Awaiter operator co_await() && noexcept { return Awaiter(std::move(state_)); }

 private:
  using State = detail::OperationState<T>;

  static Error Used() { return {EINVAL, "the operation has been used already"}; }

  std::unique_ptr<State> state_;
};

}  // namespace penstock::inline v1

#endif
