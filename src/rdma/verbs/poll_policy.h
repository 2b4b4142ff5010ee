// Whether to look again or to sleep. Being woken by a completion costs an interrupt, a system call and a turn of the loop; a
// completion queue that was just busy is likely to have more soon. So after something was found it is polled for a while in
// the loop's turns, each of which serves others too, and only then is an event asked for. How long follows what came of it.
#pragma once

#include <algorithm>

#include "base/timer.h"

namespace penstock::rdma::verbs {

class PollPolicy {
 public:
  static constexpr Duration kShortest = std::chrono::microseconds(2);
  static constexpr Duration kLongest = std::chrono::microseconds(50);

  enum class Next : uint8_t { kPollAgain, kSleep };

  // An event has come: polling begins.
  void HandleWoken(TimePoint now) { since_ = now; }
  // Polled, and found something or not.
  Next HandlePolled(bool found, TimePoint now) {
    if (found) {
      // Not the first find, which the event had announced: that one polling has won.
      if (polling_) window_ = std::min(2 * window_, kLongest);
      polling_ = true;
      since_ = now;
      return Next::kPollAgain;
    }
    if (polling_ && now - since_ < window_) return Next::kPollAgain;
    if (polling_) window_ = std::max(window_ / 2, kShortest);
    polling_ = false;
    return Next::kSleep;
  }
  Duration window() const { return window_; }

 private:
  Duration window_ = 4 * kShortest;
  TimePoint since_{};
  bool polling_ = false;
};

}  // namespace penstock::rdma::verbs
