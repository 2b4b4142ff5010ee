// Operations: what a function of the C API starts on a loop of the runtime.
//
// An operation ends for the host when its result is delivered. Its work may go on after that if the operation was
// cancelled or its time was over: the RPC, its slot and its memory cannot be taken back before the server has answered.
// Such work uses no memory of the host. Only a limited number of works goes on like this in a mount: further operations
// wait, and hold nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/task.h"
#include "base/timer.h"
#include "client/error.h"
#include "client/mount.h"
#include "library/activity.h"
#include "library/cancellation.h"
#include "library/place.h"
#include "library/structures.h"
#include "penstock/penstock.h"

namespace penstock::library {

// The result of a function of the C API, if it is not negative.
using Outcome = client::Result<int64_t>;

// The limit of a call. There is none if the time is negative, or longer than anybody waits.
std::optional<Duration> LimitOf(int64_t milliseconds);

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  // The objects that an operation uses: a mount, or a place while it has none, and a file of the mount, or null.
  struct Uses {
    Place& place;
    Activity& whole;
    Activity* part = nullptr;
    const client::Mount* explains = nullptr;  // says why calls had no reply
    // The work is done in any case, as it frees an object, also if the operation ends for the host before it begins.
    bool is_final = false;
  };

  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Begins the operation, and waits for its end if it blocks. Returns the result of the function of the C API.
  static int64_t Perform(const std::shared_ptr<Operation>& operation);

  // The following methods are for the work, on the loop.

  // Whether the operation has ended for the host: then the work should end soon, and must not touch memory of the host.
  bool abandoned() const { return delivered_; }
  // Whether the operation may become abandoned: then RPCs must not use memory of the host.
  bool may_be_abandoned() const { return cancellations_ || limit_; }

  // Has this function called when the operation becomes abandoned, so that the work ends soon.
  void OnAbandon(std::function<void()> function) { on_abandon_ = std::move(function); }

  // Ends the operation for the host, with -ECANCELED. Any thread, while the operation is in a Cancellations.
  void PostCancel();

 protected:
  Operation(const Uses& uses, const penstock_call& call);

  // The work.
  virtual Task<Outcome> Run() = 0;

 private:
  void Begin();
  static Task<void> Work(std::shared_ptr<Operation> self);
  Task<void> WaitForOthers();
  void Count();
  void Uncount();
  void Abandon(int number, const char* text);
  void Deliver(int64_t result, std::string text);
  void HandOver();
  int64_t Result() const;

  const Uses uses_;
  penstock_done* const done_;  // null if the operation blocks
  void* const context_;
  const std::optional<Duration> limit_;
  const std::shared_ptr<Cancellations> cancellations_;  // null if nothing cancels the operation

  std::optional<Cancellations::Place> in_cancellations_;
  std::unique_ptr<Timer> timer_;
  std::function<void()> on_abandon_;
  OneShot<>* waits_ = nullptr;  // for other works
  std::optional<std::list<OneShot<>*>::iterator> in_waiting_;
  bool starting_ = false;   // in the function of the C API
  bool works_ = false;      // the work has begun, and has not ended
  bool delivered_ = false;  // the operation has a result
  int64_t result_ = 0;
  std::string text_;

  std::mutex mutex_;  // guards handed_over_, for a host that waits on another thread
  std::condition_variable changed_;
  bool handed_over_ = false;
};

// Recycles the memory of operations.
template <class T>
struct Recycling {
  using value_type = T;
  Recycling() = default;
  template <class U>
  Recycling(const Recycling<U>&) {}  // NOLINT: implicit, as an allocator needs it
  T* allocate(size_t count) { return static_cast<T*>(FrameAllocator::Allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { FrameAllocator::Free(memory, count * sizeof(T)); }
  bool operator==(const Recycling&) const = default;
};

// Starts work, a function that takes the operation and returns a Task<Outcome>. The function lives as long as the work.
template <class Function>
int64_t Start(const Operation::Uses& uses, const penstock_call* call, Function function) {
  class Started final : public Operation {
   public:
    Started(const Uses& objects, const penstock_call& how, Function work)
        : Operation(objects, how), work_(std::move(work)) {}

   private:
    Task<Outcome> Run() override { return work_(*this); }
    Function work_;
  };
  penstock_call taken = PENSTOCK_CALL_INIT;
  if (const int wrong = TakeStructure(call, taken); wrong != 0) return wrong;
  return Operation::Perform(std::allocate_shared<Started>(Recycling<Started>(), uses, taken, std::move(function)));
}

// For functions that return int.
template <class Function>
int StartInt(const Operation::Uses& uses, const penstock_call* call, Function function) {
  return static_cast<int>(Start(uses, call, std::move(function)));
}

}  // namespace penstock::library
