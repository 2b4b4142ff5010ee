#include "rdma/verbs/work_queue.h"

#include <algorithm>

namespace penstock::rdma::verbs {

// Reads that had to wait go first.
std::optional<WorkRequest> WorkQueue::TakeNext() {
  if (!delayed_reads_.empty() && reads_ < ord_) return delayed_reads_.pop_front();
  while (!waiting_.empty()) {
    WorkRequest next = waiting_.pop_front();
    if (next.operation != Operation::kRead || reads_ < ord_) return next;
    delayed_reads_.push_back(std::move(next));
  }
  return std::nullopt;
}

std::vector<WorkRequest> WorkQueue::TakeBatch(size_t most) {
  const size_t count = std::min<size_t>(most, places_.room());
  std::vector<WorkRequest> batch;
  while (batch.size() < count) {
    std::optional<WorkRequest> next = TakeNext();
    if (!next) break;
    if (next->operation == Operation::kRead) ++reads_;
    batch.push_back(*std::move(next));
  }
  return batch;
}

SendPlaces::Ticket WorkQueue::Post(WorkRequest request, bool last) {
  const bool read = request.operation == Operation::kRead;
  posted_.push_back(std::move(request));
  return places_.Post(read ? SendPlaces::Signal::kAlways : SendPlaces::Signal::kWhenDue, last);
}

}  // namespace penstock::rdma::verbs
