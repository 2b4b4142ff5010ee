// What is going on in an object of the C API.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>

#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"

namespace penstock::library {

// The operations on an object: on a file, on a mount without its files, or on a place without its mounts.
struct Activity {
  // Operations that have not ended for the host. Any thread.
  std::atomic<size_t> operations = 0;

  // The following members belong to the loop of the object.

  // Works that go on although their operation has ended for the host.
  size_t abandoned = 0;
  // `abandoned` has become zero.
  Signal quiet;
};

// The abandoned works of a mount and its files. Only so many of them may hold an RPC, or memory, before further
// operations that may be abandoned wait. It belongs to the loop.
struct AbandonedWorks {
  static constexpr size_t kMost = 256;
  size_t count = 0;
  // Operations that wait until there are fewer, in their order.
  std::list<OneShot<>*> waiting;
};

// Waits until no abandoned work of the object is left, and returns when none of its code runs any more.
inline Task<void> WaitUntilQuiet(Loop& loop, Activity& activity) {
  while (activity.abandoned > 0) {
    co_await activity.quiet;
    co_await NextTurn(loop);
  }
}

}  // namespace penstock::library
