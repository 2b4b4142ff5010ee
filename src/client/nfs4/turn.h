// Coroutines take turns: what one has begun is over before the next begins. One thread only.
#pragma once

#include "base/signal.h"
#include "base/task.h"

namespace penstock::client::v4 {

class Turn {
 public:
  Task<void> Take() {
    while (taken_) co_await given_;
    taken_ = true;
  }

  // Of a turn that has been taken: gives it on.
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

}  // namespace penstock::client::v4
