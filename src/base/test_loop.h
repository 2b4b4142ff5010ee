// Runs a loop in tests, in real time, on a machine that may be busy.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <chrono>

#include "base/loop.h"

namespace penstock {

// The time limit of tests for expected events. Only a failing test waits so long. It is shorter than the stall limits
// of servers and connections (60 s), so that no test passes merely because such a limit ended a connection.
inline constexpr std::chrono::seconds kTestPatience{50};

// Runs the loop until done() is true. Returns false after kTestPatience.
template <class Done>
[[nodiscard]] bool TurnUntil(Loop& loop, const Done& done) {
  const TimePoint limit = loop.Now() + kTestPatience;
  while (!done()) {
    if (loop.Now() > limit) return false;
    loop.context().restart();
    loop.context().run_one_for(std::chrono::milliseconds(10));
  }
  return true;
}

// Runs the loop for `time`, and then until no handler is ready: a busy machine may give us the processor only when the
// time is over. Fails the test if handlers are still ready after kTestPatience.
inline void TurnFor(Loop& loop, Duration time) {
  const TimePoint end = loop.Now() + time;
  for (;;) {
    loop.context().restart();
    const bool idle = loop.context().poll() == 0;
    if (idle && loop.Now() >= end) return;
    if (loop.Now() > end + kTestPatience) {
      ADD_FAILURE() << "the loop is never idle";
      return;
    }
    loop.context().restart();
    loop.context().run_one_for(std::chrono::milliseconds(1));
  }
}

}  // namespace penstock
