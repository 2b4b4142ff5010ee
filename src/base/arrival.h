// Octets that arrive in memory in order, while somebody already uses the first of them.
#pragma once

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <utility>

namespace penstock {

// The receiver calls Advance(). At most one coroutine waits at a time. All on one loop.
class Arrival {
 public:
  Arrival() = default;
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  // The number of octets, from the first one on, that are in memory and stay as they are.
  size_t arrived() const { return arrived_; }

  // The first `arrived` octets are there now. May resume the waiter before it returns.
  void Advance(size_t arrived) {
    assert(arrived >= arrived_);
    arrived_ = arrived;
    Wake();
  }
  // The octets that have not arrived are lost, or would come too late: no wait for them begins or goes on.
  void End() {
    ended_ = true;
    Wake();
  }

  // co_await Beyond(arrival, octets): waits until more than so many octets have arrived. Returns false if they have not
  // at End(). Without an arrival, all octets are there.
  static auto Beyond(Arrival* arrival, size_t octets) {
    struct Awaiter {
      Arrival* arrival;
      size_t octets;
      bool await_ready() const noexcept { return !arrival || arrival->ended_ || arrival->arrived_ > octets; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept {
        assert(!arrival->waiter_);
        arrival->waiter_ = waiter;
        arrival->wanted_ = octets;
      }
      bool await_resume() const noexcept { return !arrival || arrival->arrived_ > octets; }
    };
    return Awaiter{arrival, octets};
  }

 private:
  void Wake() {
    if (waiter_ && (ended_ || arrived_ > wanted_)) std::exchange(waiter_, nullptr).resume();
  }

  size_t arrived_ = 0;
  size_t wanted_ = 0;
  bool ended_ = false;
  std::coroutine_handle<> waiter_;
};

}  // namespace penstock
