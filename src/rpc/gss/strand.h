// Work that is done one piece after the other, without a thread that waits for its turn.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "base/workers.h"

namespace penstock::rpc::gss {

// Any thread. Nothing here blocks but for as long as it takes to look at the queue.
class Strand {
 public:
  // True where nothing is under way: then the caller has the turn, until it calls Leave().
  bool TryEnter();
  // The turn goes to what waits, on a thread of `pool`. Null where nothing can wait.
  void Leave(Workers* pool);

  // Runs `function` on a thread of `pool` when its turn has come. It keeps alive what the strand belongs to.
  void Post(Workers& pool, std::move_only_function<void()> function);

 private:
  void Run(Workers& pool, std::move_only_function<void()> function);

  std::mutex mutex_;
  bool busy_ = false;
  std::deque<std::move_only_function<void()>> waiting_;  // only while busy_
};

}  // namespace penstock::rpc::gss
