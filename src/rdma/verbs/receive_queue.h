// The account of a queue pair's receive queue. Receives are posted in batches, which cost one doorbell each; more than the
// adapter's queue takes wait for a place.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "rdma/fifo.h"
#include "rdma/provider.h"

namespace penstock::rdma::verbs {

class ReceiveQueue {
 public:
  explicit ReceiveQueue(uint32_t depth) : depth_(depth) {}

  void Add(PostedReceive receive) { waiting_.push_back(std::move(receive)); }
  // How many may be handed to the adapter now.
  size_t due() const { return std::min<size_t>(waiting_.size(), depth_ - posted_.size()); }
  // The next that is handed to the adapter, and its number; numbers are given in a row, from 0. Requires due().
  struct Ticket {
    uint64_t number = 0;
    const PostedReceive* receive = nullptr;  // until the next call
  };
  Ticket Post() {
    assert(due() > 0);
    const PostedReceive& receive = posted_.push_back(waiting_.pop_front());
    return {head_ + posted_.size() - 1, &receive};
  }
  // The adapter uses receives in the order in which they were posted (InfiniBand Architecture §10.7.3.1): false where `number`
  // is not the oldest.
  bool HandleCompleted(uint64_t number, PostedReceive& receive) {
    if (posted_.empty() || number != head_) return false;
    receive = posted_.pop_front();
    ++head_;
    return true;
  }
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
