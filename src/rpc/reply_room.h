// Room for the results of a procedure that may be long.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/buffer.h"
#include "rpc/memory_budget.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// Long results are made before the transport can count them: many calls at once, each with little memory of its own, could make
// more than the server has. So what they may need is reserved first, and where the server is short of memory results are short.
// On the connection's loop.
class ReplyRoom {
 public:
  // Results of this length are always possible.
  static constexpr size_t kLeast = 16 << 10;

  ReplyRoom(const Peer& peer, size_t wanted) : memory_(peer.memory), octets_(wanted) {
    if (!memory_ || memory_->Reserve(BufferPool::CapacityFor(octets_))) return;
    memory_ = nullptr;
    octets_ = std::min(octets_, kLeast);
  }
  ~ReplyRoom() {
    if (memory_) memory_->Unreserve(BufferPool::CapacityFor(octets_));
  }
  ReplyRoom(const ReplyRoom&) = delete;
  ReplyRoom& operator=(const ReplyRoom&) = delete;

  // No more than was wanted.
  size_t octets() const { return octets_; }

 private:
  MemoryAccount* memory_;  // null where nothing is reserved
  size_t octets_;
};

}  // namespace penstock::rpc
