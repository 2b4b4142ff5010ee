// Copies that go on after their COPY was answered (RFC 7862 §4.8), when the server ends.
#pragma once

#include "base/task.h"
#include "base/timer.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Ends all of them, and waits until none works on a file any more. Each ends after its step, on its own loop.
Task<> StopCopies(State& state, TimerService& timers);

}  // namespace penstock::nfs::v4
