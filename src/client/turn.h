// Turn is a lock for coroutines of one thread: while one coroutine has the turn, the others wait.
#pragma once

#include "base/signal.h"
#include "base/task.h"

namespace penstock::client {

class Turn {
 public:
  Task<void> Take() {
    while (taken_) co_await given_;
    taken_ = true;
  }

  // Releases a turn that has been taken.
  class Guard {
   public:
    explicit Guard(Turn& turn) : turn_(turn) {}
    ~Guard() {
      turn_.taken_ = false;
      turn_.given_.Notify();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Turn& turn_;
  };

 private:
  bool taken_ = false;
  Signal given_;
};

}  // namespace penstock::client
