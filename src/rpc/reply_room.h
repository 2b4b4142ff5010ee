// Reserves memory for the results of a procedure that may be long.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/buffer.h"
#include "rpc/memory_budget.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// A procedure makes long results before the transport can count them, so many concurrent calls could use more memory
// than the server has. A procedure therefore reserves the memory first, and makes short results if memory is short.
// Belongs to the connection's loop.
class ReplyRoom {
 public:
  // Results of this length need no reservation.
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

  // The permitted length of the results, at most the wanted one.
  size_t octets() const { return octets_; }

 private:
  MemoryAccount* memory_;  // null if nothing is reserved
  size_t octets_;
};

}  // namespace penstock::rpc
