// The work requests that a coroutine has posted on an endpoint, and whose completions it awaits together.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "rdma/endpoint.h"

namespace penstock::rpcrdma {

// One coroutine owns the batch, adds requests to it, and resumes when all of them have completed. It may then add more
// requests and wait again. The batch must outlive every request that was added to it.
class WorkBatch {
 public:
  WorkBatch() = default;
  WorkBatch(const WorkBatch&) = delete;
  WorkBatch& operator=(const WorkBatch&) = delete;

  // Adds one request, and returns the context to post it with.
  rdma::Context Add() {
    ++pending_;
    return reinterpret_cast<rdma::Context>(this);
  }
  // The batch of a completion. Null for context 0: receives, the end of the connection, and requests without a waiter.
  static WorkBatch* From(rdma::Context context) {
    return reinterpret_cast<WorkBatch*>(context);  // NOLINT(performance-no-int-to-ptr): Add() made it of a pointer
  }

  // May resume the waiter, which may destroy this batch.
  void HandleCompletion(rdma::Status status) {
    if (status != rdma::Status::kSuccess) failed_ = true;
    if (status == rdma::Status::kRemoteAccess) refused_ = true;
    if (--pending_ == 0) {
      if (auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
    }
  }

  // True while no request has failed.
  bool ok() const { return !failed_; }
  // True if the peer has refused an access to its memory.
  bool refused() const { return refused_; }

  // co_await batch: waits until no request is pending; returns ok().
  auto operator co_await() noexcept {
    struct Awaiter {
      WorkBatch& batch;
      bool await_ready() noexcept { return batch.pending_ == 0; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept { batch.waiter_ = waiter; }
      bool await_resume() noexcept { return batch.ok(); }
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
