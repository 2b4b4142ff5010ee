// A queue of RDMA Reads, which keeps the number of outstanding Reads within the ORD of the connection.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "rdma/endpoint.h"
#include "rdma/fifo.h"

namespace penstock::rpcrdma {

// Posts Reads in order, at most ORD at once. The queue is needed because a provider executes requests in the order in
// which they are posted (RFC 5040 §5.5 rule 13). A Read beyond ORD would delay every later reply until the peer answers
// an earlier Read.
//
// Every Read gets its completion, even if the connection is lost: each completion posts the next Read, and a lost
// endpoint completes that one at once.
class ReadQueue {
 public:
  // `endpoint` must outlive the queue.
  explicit ReadQueue(rdma::Endpoint& endpoint) : endpoint_(endpoint) {}

  // Posts at most so many Reads at once from now on, at least one.
  void set_limit(size_t limit) { limit_ = std::max<size_t>(limit, 1); }
  void Post(rdma::ReadRequest request) {
    waiting_.push_back(std::move(request));
    PostAllowed();
  }
  // Call this for the completion of each Read. Posts the next one.
  void HandleCompletion() {
    --posted_;
    PostAllowed();
  }

 private:
  void PostAllowed() {
    // Post the Read even if ORD is 0: the endpoint fails it and ends the connection.
    const size_t limit = std::min(std::max<size_t>(endpoint_.info().ord, 1), limit_);
    while (!waiting_.empty() && posted_ < limit) {
      ++posted_;
      endpoint_.PostRead(waiting_.pop_front());
    }
  }

  rdma::Endpoint& endpoint_;
  rdma::Fifo<rdma::ReadRequest> waiting_;
  size_t limit_ = std::numeric_limits<size_t>::max();
  size_t posted_ = 0;  // posted and not completed
};

}  // namespace penstock::rpcrdma
