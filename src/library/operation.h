// Operations: what a function of the C API starts on a loop of the runtime.
//
// The work of an operation is a coroutine, and its frame holds the operation: a host that reads a file pays for one
// frame. An operation with a time limit or a cancellation has an EarlyEnd besides (early_end.h): it ends for the host
// when its result is delivered, but its work may go on after that. The RPC, its slot and its memory cannot be taken
// back before the server has answered. Such work uses no memory of the host.
#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/task.h"
#include "client/error.h"
#include "client/mount.h"
#include "library/activity.h"
#include "library/place.h"
#include "library/structures.h"
#include "penstock/penstock.h"

namespace penstock::library {

class EarlyEnd;

// The result of a function of the C API, if it is not negative.
using Outcome = client::Result<int64_t>;

class Operation {
 public:
  // The objects that an operation uses, and counts on.
  struct Uses {
    Place& place;
    Activity& activity;                       // of the object
    AbandonedWorks& abandoned;                // of the mount, or of the place
    const client::Mount* explains = nullptr;  // says why calls had no reply
    // The work is done in any case, as it frees an object, also if the operation ends for the host before it begins.
    bool is_final = false;
  };
  struct Start {
    Uses uses;
    penstock_call call = PENSTOCK_CALL_INIT;
  };

  // Where the result of an operation goes.
  class Recipient {
   public:
    explicit Recipient(const Start& start)
        : place_(start.uses.place),
          activity_(start.uses.activity),
          done_(start.call.done),
          context_(start.call.context) {}
    // The operation begins. Any thread.
    void Count() const { Add(1); }
    // It could not begin.
    void Uncount() const { Add(-1); }
    // The operation ends for the host. `error` is null for success. On the loop; not while the place starts another.
    void Give(int64_t result, const char* error) const {
      ++place_.ended;
      Uncount();
      done_(context_, result, error);
    }

   private:
    // A driven loop has one user at a time, and needs no atomic operation.
    void Add(int count) const {
      const auto change = static_cast<size_t>(count);
      std::atomic<size_t>& operations = activity_.operations;
      if (place_.driven()) {
        place_.under_way += change;
        operations.store(operations.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
      } else {
        operations += change;
      }
    }

    Place& place_;
    Activity& activity_;
    penstock_done* const done_;
    void* const context_;
  };

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The following methods are for the work, on the loop.

  // Whether the operation has ended for the host: then the work should end soon, and must not touch memory of the host.
  bool abandoned() const;
  // Whether the operation may become abandoned: then RPCs must not use memory of the host.
  bool may_be_abandoned() const { return early_ != nullptr; }
  // Has this function called when the operation becomes abandoned, so that the work ends soon.
  void OnAbandon(std::function<void()> function);

 protected:
  explicit Operation(const Start& start)
      : uses_(start.uses), recipient_(start), early_(MayEndEarly(start.call) ? MakeEarlyEnd(start) : nullptr) {}
  ~Operation() = default;

  void SetResult(int64_t result) { result_ = result; }
  void SetOutcome(Outcome outcome);

 private:
  friend class Work;

  static bool MayEndEarly(const penstock_call& call) { return call.cancellation || call.timeout_ms >= 0; }
  static std::shared_ptr<EarlyEnd> MakeEarlyEnd(const Start& start);

  const Uses uses_;
  const Recipient recipient_;
  const std::shared_ptr<EarlyEnd> early_;  // null if only the work ends the operation
  int64_t result_ = 0;
  std::string text_;
};

// The coroutine of an operation. Its first parameter is the Operation::Start. It runs on the loop, and frees itself.
class [[nodiscard]] Work {
 public:
  class promise_type : public Operation {
   public:
    template <class... Parameters>
    explicit promise_type(const Start& start, const Parameters&...) : Operation(start) {}

    static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
    static void operator delete(void* frame, size_t size) noexcept { FrameAllocator::Free(frame, size); }

    Work get_return_object() { return Work(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    void return_value(std::integral auto result) { SetResult(static_cast<int64_t>(result)); }
    void return_value(Outcome outcome) { SetOutcome(std::move(outcome)); }
    // No input from a peer makes us throw, so an exception here is our own bug.
    void unhandled_exception() noexcept { std::terminate(); }

    struct End {
      bool await_ready() noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> ended) noexcept { NoteEnd(ended); }
      void await_resume() noexcept {}
    };
    End final_suspend() noexcept { return {}; }
  };

  Work(Work&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Work& operator=(Work&&) = delete;
  ~Work() {
    if (handle_) handle_.destroy();
  }

  // Begins the operation, here if the loop runs here or is driven, otherwise later. Its result goes to the call's
  // `done`, but not before the function has returned.
  void Begin() &&;

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Work(Handle handle) : handle_(handle) {}

  static void BeginHere(Handle handle) noexcept;
  static Task<void> RunAfterOthers(Handle handle);
  static void NoteEnd(Handle handle) noexcept;
  static void NoteOtherEnd(Handle handle) noexcept;
  static void Finish(Handle handle);

  Handle handle_;
};

// Most operations end here. It destroys the frame first: the host may free all of this when it has the result.
inline void Work::NoteEnd(Handle handle) noexcept {
  const Operation& operation = handle.promise();
  if (operation.early_ || operation.uses_.place.is_starting || operation.result_ < 0) {
    NoteOtherEnd(handle);
    return;
  }
  const Operation::Recipient recipient = operation.recipient_;
  const int64_t result = operation.result_;
  handle.destroy();
  recipient.Give(result, nullptr);
}

// co_await ThisOperation() in a Work returns its operation.
class ThisOperation {
 public:
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<Work::promise_type> work) noexcept {
    operation_ = &work.promise();
    return false;
  }
  Operation& await_resume() const noexcept { return *operation_; }

 private:
  Operation* operation_ = nullptr;
};

// The end of an operation that a host waits for, on the stack of the host.
class Blocking {
 public:
  // Has the result delivered here.
  explicit Blocking(penstock_call& call);
  // Waits, and returns the result of the function of the C API.
  int64_t Wait(Place& place);

 private:
  static void Done(void* context, int64_t result, const char* error);

  std::mutex mutex_;  // guards the following members, for a loop with a thread of its own
  std::condition_variable changed_;
  bool ended_ = false;
  int64_t result_ = 0;
  std::string text_;
};

// Starts the Work that `make_work` returns for an Operation::Start, and waits for its end if the call blocks. Returns
// the result of the function of the C API.
template <class MakeWork>
int64_t StartWork(const Operation::Uses& uses, const penstock_call* call, MakeWork make_work) {
  Operation::Start start{.uses = uses};
  if (const int wrong = TakeStructure(call, start.call); wrong != 0) return wrong;
  if (start.call.done) {
    make_work(std::as_const(start)).Begin();
    return 0;
  }
  if (uses.place.RunsHere()) return Fail(EDEADLK, "a penstock_done function must not wait for an operation");
  Blocking blocking(start.call);
  make_work(std::as_const(start)).Begin();
  return blocking.Wait(uses.place);
}

template <class Function>
Work RunFunction(const Operation::Start& /*start*/, Function function) {
  Operation& operation = co_await ThisOperation();
  co_return co_await function(operation);
}

// Starts work, a function that takes the operation and returns a Task<Outcome>. The function lives as long as the work.
template <class Function>
int64_t Start(const Operation::Uses& uses, const penstock_call* call, Function function) {
  return StartWork(uses, call,
                   [&function](const Operation::Start& start) { return RunFunction(start, std::move(function)); });
}

// For functions that return int.
template <class Function>
int StartInt(const Operation::Uses& uses, const penstock_call* call, Function function) {
  return static_cast<int>(Start(uses, call, std::move(function)));
}

}  // namespace penstock::library
