// A queue of coroutines that wait for a share of something limited, such as a credit. The first to wait is the first to
// resume.
#pragma once

#include <cassert>
#include <coroutine>

namespace penstock::rpcrdma {

// Each waiter states with a Request how much it needs. When the owner of the queue has a share to give, it looks at
// front(), takes that share from its account on behalf of the waiter, and calls WakeFront().
template <class Request>
class WaitQueue {
 public:
  WaitQueue() = default;
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;
  ~WaitQueue() { assert(empty()); }

  bool empty() const { return first_ == nullptr; }
  const Request& front() const { return first_->request; }

  // co_await queue.Wait(request): waits for WakeFront(), which returns true to the waiter, or for Close(), which
  // returns false.
  auto Wait(Request request) { return Waiter{*this, std::move(request)}; }

  // Resumes the first waiter before it returns.
  void WakeFront() { Wake(true); }
  // Resumes all waiters; their Wait() returns false.
  void Close() {
    while (!empty()) Wake(false);
  }

 private:
  struct Waiter {
    WaitQueue& queue;
    Request request;
    bool turn = false;
    Waiter* next = nullptr;
    std::coroutine_handle<> handle = nullptr;

    bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) noexcept {
      handle = waiter;
      (queue.first_ ? queue.last_->next : queue.first_) = this;
      queue.last_ = this;
    }
    bool await_resume() noexcept { return turn; }
  };

  void Wake(bool turn) {
    Waiter* waiter = first_;
    first_ = waiter->next;
    waiter->turn = turn;
    waiter->handle.resume();
  }

  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace penstock::rpcrdma
