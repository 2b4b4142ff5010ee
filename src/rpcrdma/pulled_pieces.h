// The Reads for the chunks of a call, in pieces: the call begins when the first piece has arrived.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "base/arrival.h"
#include "base/task.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {

// Lives until all of its batches are complete.
class PulledPieces {
 public:
  static constexpr size_t kMost = 4;
  // A shorter payload is one piece: a piece costs a visit to the pool of threads.
  static constexpr size_t kShortest = 512 << 10;

  // Divides a payload of `length` octets, at least kShortest.
  void Divide(size_t length) {
    length_ = length;
    piece_ = (length + kMost - 1) / kMost;
    arrival_ = std::make_shared<Arrival>();
  }

  // Null if there is only one piece.
  const std::shared_ptr<Arrival>& arrival() const { return arrival_; }
  // The batch of the octet at this place of the payload, and the octets of its piece from there on.
  WorkBatch& BatchAt(size_t place) { return batches_[arrival_ ? place / piece_ : 0]; }
  size_t LeftOfPiece(size_t place) const { return arrival_ ? piece_ - place % piece_ : SIZE_MAX; }
  // Also everything else that the call needs before it begins.
  WorkBatch& first() { return batches_[0]; }
  std::span<WorkBatch> rest() { return std::span(batches_).subspan(1); }

  // The first `count` pieces have arrived.
  void HandleArrived(size_t count) { arrival_->Advance(std::min(count * piece_, length_)); }

  OneShot<> done;  // set when every batch is complete, if there are several pieces

 private:
  size_t length_ = 0;
  size_t piece_ = 0;
  std::array<WorkBatch, kMost> batches_;
  std::shared_ptr<Arrival> arrival_;
};

}  // namespace penstock::rpcrdma
