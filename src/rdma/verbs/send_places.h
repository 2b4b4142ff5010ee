// The places of a queue pair's send queue: which places are taken, and which work requests ask for a completion.
//
// A completion costs time in the adapter and in the driver. A request without one ("unsignalled") is done when a later
// request is done. So the last request of a batch is signalled, because it may stay the last one. In a long batch one
// of every few requests is signalled, because a place is free again only when its request or a later one has completed.
//
// Adapters complete requests in the order of posting. The exception is an RDMA Read on iWARP: later Sends overtake it.
// So a Read is always signalled, and only its own completion completes it.
#pragma once

#include <cassert>
#include <cstdint>

#include "rdma/fifo.h"

namespace penstock::rdma::verbs {

class SendPlaces {
 public:
  enum class Signal : uint8_t { kWhenDue, kAlways };

  // `depth`: the number of requests that the adapter's queue holds, at least 2.
  explicit SendPlaces(uint32_t depth) : depth_(depth), signal_every_(depth >= 32 ? 16 : (depth + 1) / 2) {
    assert(depth >= 2);
  }

  uint32_t room() const { return depth_ - static_cast<uint32_t>(places_.size()); }
  bool empty() const { return places_.empty(); }
  // The number of the oldest request that is not done. Numbers count up from 0.
  uint64_t head() const { return head_; }

  struct Ticket {
    uint64_t number = 0;
    bool signalled = false;
  };
  // The next request takes a place. `last`: it is the last one of its batch. Requires room() > 0.
  Ticket Post(Signal signal, bool last) {
    assert(room() > 0);
    const bool signalled =
        signal == Signal::kAlways || last || room() == 1 || unsignalled_in_a_row_ + 1 >= signal_every_;
    unsignalled_in_a_row_ = signalled ? 0 : unsignalled_in_a_row_ + 1;
    places_.push_back(signalled ? Place::kSignalled : Place::kUnsignalled);
    return {head_ + places_.size() - 1, signalled};
  }

  // The adapter has completed request `number`. Calls on_done(n) for each request that is done now, in order, and frees
  // their places. Returns false if request `number` did not ask for a completion or is done already.
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

  // The connection has ended and no request completes any more. Calls on_flushed(n) for each request that is not done,
  // in order.
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
