// A number of units, octets of memory for example, that coroutines take and give back. Those that wait get them in
// their order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"

namespace penstock::copying {

// Belongs to one loop. It outlives what it has given.
class Budget {
 public:
  explicit Budget(uint64_t units) : all_(units), free_(units) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Units that were taken. The destructor gives them back.
  class Share {
   public:
    Share(Budget& budget, uint64_t units) : budget_(&budget), units_(units) {}
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), units_(other.units_) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_) budget_->GiveBack(units_);
    }

   private:
    Budget* budget_;
    uint64_t units_;
  };

  // Waits until `units` are free. Takes all units if it asks for more than there are.
  Task<Share> Take(uint64_t units) {
    units = std::min(units, all_);
    if (!waiting_.empty() || units > free_) {
      Waiting waiting{units};
      waiting_.push_back(&waiting);
      co_await waiting.given;
    } else {
      free_ -= units;
    }
    co_return Share(*this, units);
  }

  uint64_t free() const { return free_; }

 private:
  struct Waiting {
    uint64_t units;
    OneShot<> given{};
  };

  void GiveBack(uint64_t units) {
    free_ += units;
    while (!waiting_.empty() && waiting_.front()->units <= free_) {
      Waiting& next = *waiting_.front();
      waiting_.pop_front();
      free_ -= next.units;
      next.given.Set();
    }
  }

  const uint64_t all_;
  uint64_t free_;
  std::deque<Waiting*> waiting_;
};

// Limits the rate of a transfer.
class RateLimit {
 public:
  // `octets` a second; zero: no limit. The timers outlive this.
  RateLimit(TimerService& timers, uint64_t octets) : timers_(timers), octets_(octets), next_(timers.Now()) {}

  // Waits until `count` octets may move.
  Task<void> Wait(uint64_t count) {
    if (octets_ == 0) co_return;
    const TimePoint now = timers_.Now();
    const TimePoint mine = std::max(next_, now);
    const std::chrono::duration<double> time(static_cast<double>(count) / static_cast<double>(octets_));
    next_ = mine + std::chrono::duration_cast<Duration>(time);
    if (mine > now) co_await Sleep(timers_, mine - now);
  }

 private:
  TimerService& timers_;
  const uint64_t octets_;
  TimePoint next_;  // when the next octets may move
};

}  // namespace penstock::copying
