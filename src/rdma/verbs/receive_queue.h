// The receives of a queue pair, without I/O: those that the adapter has and those that wait for a place in its queue.
// The driver posts due receives in batches, because each call to the adapter costs a doorbell.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "rdma/completion_queue.h"
#include "rdma/fifo.h"

namespace penstock::rdma::verbs {

class ReceiveQueue {
 public:
  // `depth`: the number of receives that the adapter's queue holds.
  explicit ReceiveQueue(uint32_t depth) : depth_(depth) {}

  // Appends a receive that waits for its place.
  void Add(PostedReceive receive) { waiting_.push_back(std::move(receive)); }
  // The number of receives that may go to the adapter now.
  size_t due() const { return std::min<size_t>(waiting_.size(), depth_ - posted_.size()); }
  // Records that the adapter gets the next receive, and returns it with its number. Numbers count up from 0. Requires
  // due() > 0.
  struct Ticket {
    uint64_t number = 0;
    const PostedReceive* receive = nullptr;  // valid until the next call
  };
  Ticket Post() {
    assert(due() > 0);
    const PostedReceive& receive = posted_.push_back(waiting_.pop_front());
    return {head_ + posted_.size() - 1, &receive};
  }
  // The adapter has completed receive `number`: moves it to `receive`. The adapter uses receives in the order of
  // posting (InfiniBand Architecture §10.7.3.1), so this returns false if `number` is not the oldest one.
  bool HandleCompleted(uint64_t number, PostedReceive& receive) {
    if (posted_.empty() || number != head_) return false;
    receive = posted_.pop_front();
    ++head_;
    return true;
  }
  // Removes all receives, and calls on_flushed(receive) for each: those that the adapter has, then those that wait.
  template <class OnFlushed>
  void Flush(OnFlushed on_flushed) {
    for (; !posted_.empty(); ++head_) on_flushed(posted_.pop_front());
    while (!waiting_.empty()) on_flushed(waiting_.pop_front());
  }

 private:
  const size_t depth_;
  uint64_t head_ = 0;
  Fifo<PostedReceive> posted_, waiting_;
};

}  // namespace penstock::rdma::verbs
