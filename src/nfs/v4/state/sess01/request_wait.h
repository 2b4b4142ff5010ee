// Lets a request of a session of 2004 wait until another one has ended, on any loop.
#pragma once

#include <memory>

#include "base/loop.h"
#include "base/task.h"

namespace penstock::nfs::v4::sess01 {

// The session holds it, and the waiting coroutine. The coroutine co_awaits `over` on its loop.
struct RequestWait {
  explicit RequestWait(Loop* waiting_on) : loop(waiting_on) {}

  // Ends the wait. Any thread may call it, once, but not under the lock of the state.
  static void End(const std::shared_ptr<RequestWait>& wait) {
    if (!wait->loop) return wait->over.Set();
    wait->loop->Post([wait] { wait->over.Set(); });
  }

  Loop* const loop;  // null in a simulation, which has only one thread
  OneShot<> over;
};

}  // namespace penstock::nfs::v4::sess01
