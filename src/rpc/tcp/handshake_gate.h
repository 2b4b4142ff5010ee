// Spreads the TLS handshakes of a server over the turns of its loop. A step of a handshake may take a millisecond of
// computation (a signature with an RSA key), so that many clients that begin one at a time would keep the loop from all
// other connections.
#pragma once

#include <coroutine>
#include <deque>

#include "base/loop.h"

namespace penstock::rpc::tcp {

// One for each server, on its loop. It outlives the handshakes that wait for it.
class HandshakeGate {
 public:
  explicit HandshakeGate(Loop& loop) : loop_(loop) {}
  HandshakeGate(const HandshakeGate&) = delete;
  HandshakeGate& operator=(const HandshakeGate&) = delete;

  // co_await gate.Turn() waits for the caller's turn to make one step. Callers get their turns in the order in which
  // they ask, at most one in each turn of the loop, always after the other work that is ready.
  auto Turn() {
    struct Awaiter {
      HandshakeGate& gate;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        gate.waiters_.push_back(waiter);
        if (gate.waiters_.size() == 1) gate.PostNext();
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  void PostNext() {
    loop_.Post([this] {
      const std::coroutine_handle<> next = waiters_.front();
      waiters_.pop_front();
      if (!waiters_.empty()) PostNext();
      next.resume();  // must be last, because it may destroy the gate
    });
  }

  Loop& loop_;
  std::deque<std::coroutine_handle<>> waiters_;
};

}  // namespace penstock::rpc::tcp
