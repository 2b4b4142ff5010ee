// Retries decides when and how long the client repeats a request that the server delays.
#pragma once

#include <algorithm>
#include <utility>

#include "base/timer.h"

namespace penstock::client {

// The delays before the repetitions grow from 20 ms to `longest`.
struct Retries {
  TimePoint give_up;
  Duration delay = std::chrono::milliseconds(20);
  Duration longest = std::chrono::seconds(5);
  Duration NextDelay() { return std::exchange(delay, std::min(2 * delay, longest)); }
};

}  // namespace penstock::client
