// The account of a queue pair's send queue: which places are taken, and which work requests ask for a completion.
//
// A completion costs the adapter and us; a request without one ("unsignalled") is done when a later one is. So the last of a
// batch is signalled, because nobody knows what comes after it, and of a long batch one of so many, because a place is free
// again only when something at or behind it has completed.
//
// Adapters complete in the order of posting, but for RDMA Reads on iWARP, which later Sends overtake: a Read is always
// signalled, and its completion never follows from another's.
#pragma once

#include <cassert>
#include <cstdint>

#include "rdma/fifo.h"

namespace penstock::rdma::verbs {

class SendPlaces {
 public:
  enum class Signal : uint8_t { kWhenDue, kAlways };

  explicit SendPlaces(uint32_t depth) : depth_(depth), signal_every_(depth >= 32 ? 16 : (depth + 1) / 2) {
    assert(depth >= 2);
  }

  uint32_t room() const { return depth_ - static_cast<uint32_t>(places_.size()); }
  bool empty() const { return places_.empty(); }
  // The number of the oldest request that is not done; numbers are given in a row, from 0.
  uint64_t head() const { return head_; }

  struct Ticket {
    uint64_t number = 0;
    bool signalled = false;
  };
  // The next request takes a place. `last`: nothing follows it in this batch. Requires room().
  Ticket Post(Signal signal, bool last) {
    assert(room() > 0);
    const bool signalled =
        signal == Signal::kAlways || last || room() == 1 || unsignalled_in_a_row_ + 1 >= signal_every_;
    unsignalled_in_a_row_ = signalled ? 0 : unsignalled_in_a_row_ + 1;
    places_.push_back(signalled ? Place::kSignalled : Place::kUnsignalled);
    return {head_ + places_.size() - 1, signalled};
  }

  // The adapter has completed request `number`: on_done(n) is called for each request that is done thereby, in order. Their
  // places are free at once. False where nothing of that number was waited for.
  template <class OnDone>
  bool HandleCompleted(uint64_t number, OnDone on_done) {
    if (number < head_ || number - head_ >= places_.size()) return false;
    const size_t index = number - head_;
    if (places_[index] != Place::kSignalled) return false;
    for (size_t i = 0; i < index; ++i) {
      if (places_[i] != Place::kUnsignalled) continue;
      places_[i] = Place::kDone;
      on_done(head_ + i);
    }
    places_[index] = Place::kDone;
    on_done(number);
    while (!places_.empty() && places_.front() == Place::kDone) {
      places_.pop_front();
      ++head_;
    }
    return true;
  }

  // What is not done, in order, when nothing completes any more.
  template <class OnFlushed>
  void Flush(OnFlushed on_flushed) {
    for (; !places_.empty(); ++head_) {
      if (places_.pop_front() != Place::kDone) on_flushed(head_);
    }
  }

 private:
  enum class Place : uint8_t { kUnsignalled, kSignalled, kDone };

  const uint32_t depth_;
  const uint32_t signal_every_;
  uint32_t unsignalled_in_a_row_ = 0;
  uint64_t head_ = 0;
  Fifo<Place> places_;
};

}  // namespace penstock::rdma::verbs
