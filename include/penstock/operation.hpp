/**
 * @file
 * Operations: what the methods of mounts and files return.
 */
#ifndef PENSTOCK_OPERATION_HPP
#define PENSTOCK_OPERATION_HPP

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>

#include "penstock/penstock.h"
#include "penstock/result.hpp"
#include "penstock/runtime.hpp"

namespace penstock::inline v1 {

/** @cond internal */
namespace detail {

// What an operation uses: an open mount or file.
class Object {
 public:
  explicit Object(RuntimeReference runtime) noexcept : runtime_(std::move(runtime)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const RuntimeReference& runtime() const noexcept { return runtime_; }
  virtual bool is_open() const noexcept = 0;

 private:
  const RuntimeReference runtime_;
};

// Gets the result of an operation that does not block, once.
template <class T>
class Receiver {
 public:
  virtual void Receive(Result<T> result) noexcept = 0;

 protected:
  virtual ~Receiver() = default;
};

// An operation and its arguments. It owns itself from its start to its end.
template <class T>
class OperationState {
 public:
  // A null object: the operation opens one.
  OperationState(RuntimeReference runtime, std::shared_ptr<Object> object) noexcept
      : runtime_(std::move(runtime)), object_(std::move(object)) {}
  virtual ~OperationState() { ReleaseCancellation(); }
  OperationState(const OperationState&) = delete;
  OperationState& operator=(const OperationState&) = delete;

  void set_timeout(int64_t milliseconds) noexcept { timeout_ms_ = milliseconds; }
  void set_stop_token(std::stop_token token) noexcept { stop_token_ = std::move(token); }

  // Executes the operation on this thread.
  Result<T> Run() {
    if (runtime_ && callback_runtime == runtime_.get()) {
      return Error{EDEADLK, "an operation cannot block in a callback of its runtime"};
    }
    if (std::optional<Error> refusal = Prepare()) return *std::move(refusal);
    const penstock_call call = MakeCall(nullptr);
    const int64_t number = Begin(&call);
    Result<T> result = Finish(number, number < 0 ? penstock_error_text() : nullptr);
    ReleaseCancellation();
    runtime_->EndDispatch();
    return result;
  }

  // Starts the operation. Returns an error if that fails. Otherwise `receiver` gets the result, perhaps before this
  // function returns, on another thread.
  static std::optional<Error> Start(std::unique_ptr<OperationState> owned, Receiver<T>& receiver) {
    if (std::optional<Error> refusal = owned->Prepare()) return refusal;
    OperationState* const state = owned.release();
    RuntimeCore* const runtime = state->runtime_.get();
    state->receiver_ = &receiver;
    runtime->BeginOperation();
    const penstock_call call = state->MakeCall(&Done);
    const int64_t started = state->Begin(&call);
    if (started >= 0) return std::nullopt;
    Error error = LastError(started);
    state->Refused();
    delete state;
    runtime->EndOperation();
    return error;
  }

  // The receiver does not want the result any more. Only before it has received it.
  void Abandon() noexcept { settled_.exchange(true); }

 protected:
  // Calls the function of the C API.
  virtual int64_t Begin(const penstock_call* call) noexcept = 0;
  // Makes the value of a result that is not negative.
  virtual Result<T> Take(int64_t number) = 0;
  // Learns a failure.
  virtual void Failed(int64_t /*number*/) noexcept {}
  // Learns that the function of the C API has started nothing.
  virtual void Refused() noexcept {}
  // Returns an error if the arguments are wrong.
  virtual std::optional<Error> Check() const {
    if (object_ && !object_->is_open()) return Error{EBADF, "the mount or file is closed"};
    return std::nullopt;
  }

 private:
  struct Cancel {
    penstock_cancellation* cancellation;
    void operator()() const noexcept { penstock_cancel(cancellation); }
  };

  std::optional<Error> Prepare() {
    if (std::optional<Error> wrong = Check()) return wrong;
    if (!stop_token_.stop_possible()) return std::nullopt;
    const int made = penstock_cancellation_new(&cancellation_);
    if (made < 0) return LastError(made);
    // If the stop was requested before, this cancels at once, and the operation ends as soon as it has begun.
    on_stop_.emplace(std::move(stop_token_), Cancel{cancellation_});
    return std::nullopt;
  }
  // If another thread is cancelling, waits until it has done so.
  void ReleaseCancellation() noexcept {
    on_stop_.reset();
    penstock_cancellation_free(std::exchange(cancellation_, nullptr));
  }

  penstock_call MakeCall(penstock_done* done) noexcept {
    penstock_call call = PENSTOCK_CALL_INIT;
    call.done = done;
    call.context = this;
    call.timeout_ms = timeout_ms_;
    call.cancellation = cancellation_;
    return call;
  }

  Result<T> Finish(int64_t number, const char* error) {
    if (number >= 0) return Take(number);
    Failed(number);
    return Error{static_cast<int>(-number), error ? error : ""};
  }

  static void Done(void* context, int64_t number, const char* error) noexcept {
    std::unique_ptr<OperationState> state(static_cast<OperationState*>(context));
    RuntimeCore* const runtime = state->runtime_.get();
    {
      const CallbackScope scope(runtime);
      state->ReleaseCancellation();
      Result<T> result = state->Finish(number, error);
      Receiver<T>* const receiver = state->settled_.exchange(true) ? nullptr : state->receiver_;
      state.reset();
      if (receiver) receiver->Receive(std::move(result));
    }
    // Until here the operation keeps the runtime. This thread does not touch the runtime afterwards.
    runtime->EndOperation();
  }

  const RuntimeReference runtime_;
  const std::shared_ptr<Object> object_;
  int64_t timeout_ms_ = -1;
  std::stop_token stop_token_;
  penstock_cancellation* cancellation_ = nullptr;
  std::optional<std::stop_callback<Cancel>> on_stop_;
  Receiver<T>* receiver_ = nullptr;
  std::atomic<bool> settled_ = false;  // the result was delivered, or is not wanted
};

// An operation whose arguments are wrong.
template <class T>
class RefusedState final : public OperationState<T> {
 public:
  explicit RefusedState(Error error) : OperationState<T>({}, nullptr), error_(std::move(error)) {}

 private:
  int64_t Begin(const penstock_call* /*call*/) noexcept override { return -EINVAL; }
  Result<T> Take(int64_t /*number*/) override { return error_; }
  std::optional<Error> Check() const override { return error_; }

  const Error error_;
};

// An operation made of two functions: `begin` calls the C API, which stores results in `out`, and `take` makes the
// value.
template <class T, class Out, class BeginFunction, class TakeFunction>
class FunctionState final : public OperationState<T> {
 public:
  FunctionState(RuntimeReference runtime, std::shared_ptr<Object> object, Out&& out, BeginFunction&& begin,
                TakeFunction&& take)
      : OperationState<T>(std::move(runtime), std::move(object)),
        out_(std::move(out)),
        begin_(std::move(begin)),
        take_(std::move(take)) {}

 private:
  int64_t Begin(const penstock_call* call) noexcept override { return begin_(out_, call); }
  Result<T> Take(int64_t number) override {
    if constexpr (std::is_void_v<T>) {
      take_(out_, number);
      return {};
    } else {
      return take_(out_, number);
    }
  }

  Out out_;
  BeginFunction begin_;
  TakeFunction take_;
};

struct Nothing {};

}  // namespace detail
/** @endcond */

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

/** @cond internal */
namespace detail {

template <class T>
Operation<T> Refuse(Error error) {
  return Operation<T>(std::make_unique<RefusedState<T>>(std::move(error)));
}

template <class T, class Out, class BeginFunction, class TakeFunction>
Operation<T> MakeOperation(RuntimeReference runtime, std::shared_ptr<Object> object, Out out, BeginFunction begin,
                           TakeFunction take) {
  return Operation<T>(std::make_unique<FunctionState<T, Out, BeginFunction, TakeFunction>>(
      std::move(runtime), std::move(object), std::move(out), std::move(begin), std::move(take)));
}

// Texts end at a NUL in the C API, so that a NUL inside would change what they name.
inline bool HasNul(std::initializer_list<std::string_view> texts) noexcept {
  for (const std::string_view text : texts) {
    if (text.find('\0') != std::string_view::npos) return true;
  }
  return false;
}
inline Error NulError() { return {EINVAL, "a text contains a NUL"}; }

// An open mount or file of the C API. The last of its references closes it.
template <class Handle, int (*kClose)(Handle*, const penstock_call*)>
class Opened final : public Object {
 public:
  // `parent` lives until this object is closed.
  Opened(RuntimeReference runtime, std::shared_ptr<Object> parent) noexcept
      : Object(std::move(runtime)), parent_(std::move(parent)) {}
  ~Opened() override {
    if (!handle || runtime()->is_copy()) return;
    if (!callback_runtime) {
      kClose(handle, nullptr);
      runtime()->EndDispatch();
      return;
    }
    // A callback must not block.
    auto* const closing = new Closing{runtime(), std::move(parent_)};
    RuntimeCore* const core = runtime().get();
    core->BeginOperation();
    penstock_call call = PENSTOCK_CALL_INIT;
    call.done = &Closing::Done;
    call.context = closing;
    if (kClose(handle, &call) < 0) {
      delete closing;
      core->EndOperation();
    }
  }

  bool is_open() const noexcept override { return handle != nullptr; }

  // Makes the operation that closes an object.
  static Operation<void> Close(std::shared_ptr<Opened> object) {
    if (!object) return Refuse<void>({EBADF, "the mount or file is closed"});
    return Operation<void>(std::make_unique<CloseState>(std::move(object)));
  }

  // Null: not open yet, or closed.
  Handle* handle = nullptr;

 private:
  struct Closing {
    RuntimeReference runtime;
    std::shared_ptr<Object> parent;

    static void Done(void* context, int64_t /*number*/, const char* /*error*/) noexcept {
      auto* const closing = static_cast<Closing*>(context);
      RuntimeCore* const core = closing->runtime.get();
      {
        const CallbackScope scope(core);
        delete closing;
      }
      core->EndOperation();
    }
  };

  class CloseState final : public OperationState<void> {
   public:
    explicit CloseState(std::shared_ptr<Opened> closed)
        : OperationState<void>(closed->runtime(), closed), opened_(std::move(closed)) {}

   private:
    int64_t Begin(const penstock_call* call) noexcept override {
      // No other operation may begin with this handle.
      handle_ = std::exchange(opened_->handle, nullptr);
      return kClose(handle_, call);
    }
    Result<void> Take(int64_t /*number*/) override { return {}; }
    void Failed(int64_t number) noexcept override {
      if (number == -EBUSY) Refused();
    }
    // The object stays, and is closed when its last operation or file is gone.
    void Refused() noexcept override { opened_->handle = handle_; }

    const std::shared_ptr<Opened> opened_;
    Handle* handle_ = nullptr;
  };

  std::shared_ptr<Object> parent_;
};

using OpenedMount = Opened<penstock_mount, penstock_mount_close>;
using OpenedFile = Opened<penstock_file, penstock_close>;

}  // namespace detail
/** @endcond */

}  // namespace penstock::inline v1

#endif
