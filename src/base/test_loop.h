// For tests: turns of a loop in real time, on a machine that may be busy with other things.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <chrono>

#include "base/loop.h"

namespace penstock {

// How long a test waits for what must come. Only a test that fails waits so long. Less than the stall limits of servers
// and connections (60 s), so that no test passes since such a limit ended what should have ended at once.
inline constexpr std::chrono::seconds kTestPatience{50};

// Turns the loop until done() holds. False where kTestPatience is over before.
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

// Turns the loop for that time, and then until nothing is ready: on a busy machine we may get the processor only when
// the time is over. Fails the test where something is ready for kTestPatience more.
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
