// Decides after each poll of a completion queue whether to poll again or to wait for an event. An event costs an
// interrupt, a system call and a turn of the loop. A queue that had completions is likely to have more soon. So the
// queue is polled again in the next turns of the loop, which also serve other connections, for a window of time. Only
// then the driver asks for an event. The window grows when polling finds completions and shrinks when it does not.
#pragma once

#include <algorithm>

#include "base/timer.h"

namespace penstock::rdma::verbs {

class PollPolicy {
 public:
  static constexpr Duration kShortest = std::chrono::microseconds(2);
  static constexpr Duration kLongest = std::chrono::microseconds(50);

  enum class Next : uint8_t { kPollAgain, kSleep };

  // An event has arrived, and polling begins.
  void HandleWoken(TimePoint now) { since_ = now; }
  // The queue was polled. `found`: it had completions.
  Next HandlePolled(bool found, TimePoint now) {
    if (found) {
      // The event announced the first completions. Only later ones show that polling is worthwhile.
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
