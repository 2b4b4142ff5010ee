// What is behind an Operation. Not for programs.
#ifndef PENSTOCK_DETAIL_OPERATION_STATE_HPP
#define PENSTOCK_DETAIL_OPERATION_STATE_HPP

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "penstock/detail/runtime_core.hpp"
#include "penstock/penstock.h"
#include "penstock/result.hpp"

namespace penstock::inline v1::detail {

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

}  // namespace penstock::inline v1::detail

#endif
