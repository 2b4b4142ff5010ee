// The work requests of a queue pair's send queue: those that wait, those that the adapter has, and those that complete.
// The queue decides which request may go to the adapter next, and which requests a completion of the adapter completes.
// It does no I/O: QueuePairDriver moves requests between the queue and the adapter.
//
// Requests go in the order of posting, except that a Read beyond ORD waits while later requests pass it.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rdma/fifo.h"
#include "rdma/verbs/send_places.h"
#include "rdma/verbs/work_request.h"

namespace penstock::rdma::verbs {

class WorkQueue {
 public:
  // `depth`: the number of requests that the adapter's send queue holds.
  explicit WorkQueue(uint32_t depth) : places_(depth) {}

  // The number of Reads that may be under way at once. 0 until it is set.
  void set_ord(uint16_t ord) { ord_ = ord; }
  uint16_t ord() const { return ord_; }

  // True if no request waits and the adapter has none.
  bool empty() const { return waiting_.empty() && delayed_reads_.empty() && places_.empty(); }

  // Appends a request. It goes to the adapter in a later batch.
  void Add(WorkRequest request) { waiting_.push_back(std::move(request)); }

  // Removes up to `most` requests that may go to the adapter now, and returns them in the order of posting. The caller
  // calls Post() for each of them.
  std::vector<WorkRequest> TakeBatch(size_t most);

  // Records that the adapter gets this request, which TakeBatch() returned. `last`: it is the last one of its batch.
  // The ticket has the number of the request in its completion, and tells whether the request asks for a completion.
  SendPlaces::Ticket Post(WorkRequest request, bool last);

  // The adapter has completed request `number` successfully. Calls on_done(request) for each request that is done now,
  // in order.
  template <class OnDone>
  void HandleCompleted(uint64_t number, OnDone on_done) {
    places_.HandleCompleted(number, [&](uint64_t done) {
      WorkRequest& request = posted_[done - posted_head_];
      if (request.operation == Operation::kRead) --reads_;
      on_done(request);
    });
    for (; posted_head_ < places_.head(); ++posted_head_) posted_.pop_front();
  }

  // Request `number` has ended the connection: Flush() gives it this status.
  void Blame(uint64_t number, Status status) { blamed_ = Blamed{number, status}; }

  // The connection has ended. Removes all requests and calls on_flushed(request, status) for each: those that the
  // adapter has, then the Reads that waited for ORD, then the rest.
  template <class OnFlushed>
  void Flush(OnFlushed on_flushed) {
    places_.Flush([&](uint64_t number) {
      const bool blamed = blamed_ && blamed_->number == number;
      on_flushed(posted_[number - posted_head_], blamed ? blamed_->status : Status::kFlushed);
    });
    posted_.clear();
    for (Fifo<WorkRequest>* requests : {&delayed_reads_, &waiting_}) {
      while (!requests->empty()) {
        WorkRequest request = requests->pop_front();
        on_flushed(request, Status::kFlushed);
      }
    }
  }

 private:
  struct Blamed {
    uint64_t number = 0;
    Status status = Status::kFlushed;
  };
  std::optional<WorkRequest> TakeNext();

  SendPlaces places_;
  Fifo<WorkRequest> waiting_;        // not yet given to the adapter
  Fifo<WorkRequest> delayed_reads_;  // Reads that wait until a Read under way completes
  Fifo<WorkRequest> posted_;         // the first one has the number posted_head_
  uint64_t posted_head_ = 0;
  uint16_t ord_ = 0;
  uint16_t reads_ = 0;  // Reads under way
  std::optional<Blamed> blamed_;
};

}  // namespace penstock::rdma::verbs
