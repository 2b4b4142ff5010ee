// Ends the copies that continue after their reply (RFC 7862 §4.8) when the server stops.
#pragma once

#include "base/task.h"
#include "base/timer.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Ends all copies after their current step, on their own loops, and tells their clients how much was copied. What was
// copied is stable. Waits until no copy uses a file and all clients have answered, or until `end`.
Task<> EndCopies(State& state, TimerService& timers, TimePoint end = TimePoint::max());

}  // namespace penstock::nfs::v4
