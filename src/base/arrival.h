// Octets that arrive in memory in order, while somebody already uses the first of them.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <utility>

namespace penstock {

// Whoever receives the octets calls Advance() and Fail(); at most one coroutine at a time waits, and may be told by
// Settle() to wait no longer. All on one loop.
class Arrival {
 public:
  Arrival() = default;
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  // The number of octets, from the first one on, that are in memory and stay as they are.
  size_t arrived() const { return arrived_; }
  // No more octets will come.
  bool failed() const { return failed_; }

  // The first `arrived` octets are there now. May resume the waiter before it returns.
  void Advance(size_t arrived) {
    assert(arrived >= arrived_);
    arrived_ = arrived;
    Wake();
  }
  void Fail() {
    failed_ = true;
    Wake();
  }
  // From now on nobody waits for octets that have not arrived.
  void Settle() {
    settled_ = true;
    Wake();
  }

  // co_await arrival.Beyond(octets): waits until more than so many octets have arrived. Returns false if they never
  // will, or after Settle().
  auto Beyond(size_t octets) {
    struct Awaiter {
      Arrival& arrival;
      size_t octets;
      bool await_ready() const noexcept { return arrival.arrived_ > octets || arrival.failed_ || arrival.settled_; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept {
        assert(!arrival.waiter_);
        arrival.waiter_ = waiter;
        arrival.wanted_ = octets;
      }
      bool await_resume() const noexcept { return arrival.arrived_ > octets; }
    };
    return Awaiter{*this, octets};
  }

 private:
  void Wake() {
    if (!waiter_ || (arrived_ <= wanted_ && !failed_ && !settled_)) return;
    std::exchange(waiter_, nullptr).resume();
  }

  size_t arrived_ = 0;
  size_t wanted_ = 0;
  bool failed_ = false;
  bool settled_ = false;
  std::coroutine_handle<> waiter_;
};

}  // namespace penstock
