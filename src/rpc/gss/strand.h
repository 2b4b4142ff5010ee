// Runs functions one after the other without blocking a thread.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "base/workers.h"

namespace penstock::rpc::gss {

// Thread-safe. Its functions lock the queue briefly and do not block otherwise.
class Strand {
 public:
  // Returns true if the strand is free. The caller then has the turn until it calls Leave().
  bool TryEnter();
  // Passes the turn to the next waiting function, on a thread of `pool`. `pool` may be null if nothing can wait.
  void Leave(Workers* pool);

  // Runs `function` on a thread of `pool` when its turn comes. The function must keep the strand's owner alive.
  void Post(Workers& pool, std::move_only_function<void()> function);

 private:
  void Run(Workers& pool, std::move_only_function<void()> function);

  std::mutex mutex_;
  bool busy_ = false;
  std::deque<std::move_only_function<void()>> waiting_;  // only while busy_
};

}  // namespace penstock::rpc::gss
