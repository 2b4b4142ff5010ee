// A pool of threads for calls that block: on a disk, a directory service or a long computation.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/client_key.h"
#include "base/loop.h"

namespace penstock {

// The kind of work that a function on the pool does.
enum class WorkKind : uint8_t {
  kMetadata,  // names, attributes, look-ups
  kData,      // contents of files, on a disk that may be slow
};

// A pool of threads that its clients share fairly.
//
// Each client's functions start in the order in which they were posted. Clients take turns: first the hosts, then the
// connections of a host. A quarter of the threads serves metadata only. One client alone gets a quarter of the threads
// for a kind of work, so that hanging functions of one client leave threads for others. See Turns.
class Workers {
 public:
  // How the destructor treats functions that are running.
  enum class AtEnd : uint8_t {
    kWait,   // waits until they return
    kLeave,  // does not wait; they may run on, and must not refer to anything that ends before the process
  };

  // What the threads of a pool have in common.
  struct ThreadSettings {
    std::string name = "penstock-pool";  // see StartThread()
    std::function<void()> begin{};       // each thread calls it first; may be empty
  };

  // `threads` is at least one. The pool starts threads on demand. What functions log goes where the messages of the
  // calling thread go.
  explicit Workers(size_t threads, AtEnd at_end = AtEnd::kWait) : Workers(threads, at_end, ThreadSettings()) {}
  Workers(size_t threads, AtEnd at_end, ThreadSettings settings);
  // Destroys the functions that have not started. Only the pool's own threads may still be in Post() or Join().
  ~Workers();

  // Runs `function` on a thread of the pool, later. Thread-safe. Destroys functions that are posted after Join().
  void Post(std::move_only_function<void()> function, const ClientKey& client = {},
            WorkKind work = WorkKind::kMetadata);
  // Waits until every posted function has run, and ends the threads.
  void Join();

  // Returns true if functions wait for a thread, or if the pool is ending. A long function should then return and be
  // posted again. Thread-safe.
  bool is_wanted() const;

  // The number of threads that functions of this kind may use at the same time.
  size_t threads_for(WorkKind work) const;

  struct Statistics {
    size_t threads = 0;  // that have been started
    size_t busy = 0;     // those that run a function
    size_t most = 0;     // that may be started
    size_t waiting_metadata = 0;
    size_t waiting_data = 0;
  };
  // Thread-safe.
  Statistics statistics() const;

  // Whether a pool of this process has left a thread to itself (AtEnd::kLeave). Then the process must end by _Exit():
  // exit() would finalize libraries that the thread may be using. Thread-safe.
  static bool have_left_threads();

 private:
  class Pool;
  const std::shared_ptr<Pool> pool_;  // the threads share it, since some may outlive this object
  const AtEnd at_end_;
};

// co_await Offload(loop, workers, f) runs f() on a thread of `workers` while `loop` serves others, and resumes on
// `loop` with the result of f(). Use it for calls that block. `loop` and `workers` must outlive the call. If one of
// them is null (a simulation has no threads), f() runs at once.
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
