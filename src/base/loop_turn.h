// How long one connection may use its loop before others get their turn.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/timer.h"

namespace penstock {

// Measures one turn of a connection on its loop. Counts of calls or octets do not bound a turn: one call may take a
// thousand times as long as another. So whoever works in a loop asks IsOver() between two steps, and lets other work
// of the loop go on if it returns true.
class LoopTurn {
 public:
  // Short beside what a client waits for anyway, and long beside a call, so that a turn serves many of them.
  static constexpr Duration kLimit = std::chrono::microseconds(250);
  // So many messages leave before the end of a turn: the peer works on them while this side works on the rest. The rest
  // leaves together, because each further system call would cost more than it gains.
  static constexpr size_t kEarlyMessages = 8;

  explicit LoopTurn(TimePoint now) : began_(now) {}

  // Others have had their turn.
  void Begin(TimePoint now) { began_ = now; }
  bool IsOver(TimePoint now) const { return now - began_ >= kLimit; }

 private:
  TimePoint began_;
};

}  // namespace penstock
