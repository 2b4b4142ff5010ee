// Ends the copies that continue after their reply (RFC 7862 §4.8) when the server stops.
#pragma once

#include "base/task.h"
#include "base/timer.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Ends all copies, and waits until none uses a file any more. Each copy ends after its current step, on its own loop.
Task<> StopCopies(State& state, TimerService& timers);

}  // namespace penstock::nfs::v4
