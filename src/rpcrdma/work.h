// Waiting for what was posted on an endpoint.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "rdma/endpoint.h"

namespace penstock::rpcrdma {

// Posted requests whose completions one coroutine awaits together; it may post and await again. Lives until all of them
// have completed.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The context for one more request.
  rdma::Context Add() {
    ++pending_;
    return reinterpret_cast<rdma::Context>(this);
  }
  // Whose completion this is; null for receives, for the end of the connection and for what nobody waits for (context 0).
  static Work* Of(rdma::Context context) {
    return reinterpret_cast<Work*>(context);  // NOLINT(performance-no-int-to-ptr): Add() made it of a pointer
  }

  // May resume the waiter, which may destroy this.
  void HandleCompletion(rdma::Status status) {
    if (status != rdma::Status::kSuccess) failed_ = true;
    if (status == rdma::Status::kRemoteAccess) refused_ = true;
    if (--pending_ == 0) {
      if (auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
    }
  }

  // True while no request has failed.
  bool ok() const { return !failed_; }
  // True where the peer has refused us an access to its memory.
  bool refused() const { return refused_; }

  auto operator co_await() noexcept {
    struct Awaiter {
      Work& work;
      bool await_ready() noexcept { return work.pending_ == 0; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept { work.waiter_ = waiter; }
      bool await_resume() noexcept { return work.ok(); }
    };
    return Awaiter{*this};
  }

 private:
  size_t pending_ = 0;
  bool failed_ = false;
  bool refused_ = false;
  std::coroutine_handle<> waiter_;
};

}  // namespace penstock::rpcrdma
