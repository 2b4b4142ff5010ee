// RDMA Reads that wait for their turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "rdma/endpoint.h"
#include "rdma/fifo.h"

namespace penstock::rpcrdma {

// Posts Reads in order, no more at once than ORD allows. A provider keeps the order of what is posted (RFC 5040 §5.5
// rule 13): a Read beyond ORD would hold every reply behind it until the peer has answered an earlier Read.
//
// Every Read gets its completion, also when the connection is lost: each completion posts the next Read, and a lost
// endpoint flushes it.
class ReadQueue {
 public:
  // `endpoint` outlives the queue.
  explicit ReadQueue(rdma::Endpoint& endpoint) : endpoint_(endpoint) {}

  void Post(rdma::ReadRequest request) {
    waiting_.push_back(std::move(request));
    PostAllowed();
  }
  // For the completion of each Read.
  void HandleCompletion() {
    --posted_;
    PostAllowed();
  }

 private:
  void PostAllowed() {
    // With an ORD of 0 the endpoint fails the Read, and the connection with it.
    const size_t limit = std::max<size_t>(endpoint_.info().ord, 1);
    while (!waiting_.empty() && posted_ < limit) {
      ++posted_;
      endpoint_.PostRead(waiting_.pop_front());
    }
  }

  rdma::Endpoint& endpoint_;
  rdma::Fifo<rdma::ReadRequest> waiting_;
  size_t posted_ = 0;  // and not completed
};

}  // namespace penstock::rpcrdma
