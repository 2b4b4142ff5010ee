// Threads for calls that block: a disk, a directory service, a long computation.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/client_key.h"
#include "base/loop.h"

namespace penstock {

// What a function on the pool waits for.
enum class WorkKind : uint8_t {
  kMetadata,  // names, attributes, look-ups
  kData,      // the contents of files, which a slow disk may keep for long
};

// A pool of threads that its clients share fairly.
//
// Each client's functions begin in the order in which they were posted. Clients take turns: hosts first, then the
// connections of a host. A quarter of the threads is for metadata alone, and one client alone gets a quarter of those for a kind
// of work: what functions that hang leave free is for others. See Turns.
class Workers {
 public:
  // `threads`: at least one; they are started when they are needed.
  explicit Workers(size_t threads);
  // Ends the threads as soon as the functions return that run now. Functions that have not begun are destroyed.
  // No other thread may still be in Post() or Join(), but for the pool's own.
  ~Workers();

  // Any thread: runs `function` on a thread of the pool, later. Functions posted after Join() are destroyed.
  void Post(std::move_only_function<void()> function, const ClientKey& client = {},
            WorkKind work = WorkKind::kMetadata);
  // Waits until every posted function has run, and ends the threads.
  void Join();

  // Any thread: whether functions wait for a thread, or the threads are to end. A function that could go on for long
  // had better return then, and be posted again.
  bool is_wanted() const;

  // How many threads functions of the kind may have at the same time.
  size_t threads_for(WorkKind work) const;

 private:
  class Pool;
  const std::unique_ptr<Pool> pool_;
};

// co_await Offload(loop, workers, f): runs f() on a thread of `workers` while `loop` goes on, and resumes on `loop`
// with what it returned. For calls that block. `loop` and `workers` must outlive the call. Where one of them is null (a
// simulation has no threads) f() runs at once.
template <class Function>
auto Offload(Loop* loop, Workers* workers, Function function, const ClientKey& client = {},
             WorkKind work = WorkKind::kMetadata) {
  using T = std::invoke_result_t<Function&>;
  struct Awaiter {
    Loop* loop;
    Workers* workers;
    Function function;
    ClientKey client;
    WorkKind work;
    std::optional<T> result;

    bool await_ready() {
      if (loop && workers) return false;
      result.emplace(function());
      return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      const auto run = [this, waiter] {
        result.emplace(function());
        loop->Post(waiter);
      };
      workers->Post(run, client, work);
    }
    T await_resume() { return std::move(*result); }
  };
  return Awaiter{loop, workers, std::move(function), client, work, {}};
}
template <class Function>
auto Offload(Loop& loop, Workers& workers, Function function, const ClientKey& client = {},
             WorkKind work = WorkKind::kMetadata) {
  return Offload(&loop, &workers, std::move(function), client, work);
}

}  // namespace penstock
