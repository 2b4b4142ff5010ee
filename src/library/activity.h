// What is going on in an object of the C API.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>

#include "base/signal.h"
#include "base/task.h"

namespace penstock::library {

struct Activity {
  // Operations that have not ended for the host. Any thread.
  std::atomic<size_t> operations = 0;

  // The following members belong to the loop of the object.

  // Operations whose work has not ended, also if they have ended for the host.
  size_t works = 0;
  // Those of them that have ended for the host and hold an RPC, or memory.
  size_t abandoned = 0;
  // Operations that wait until fewer are abandoned, in their order.
  std::list<OneShot<>*> waiting;
  // `works` has become smaller.
  Signal changed;
};

}  // namespace penstock::library
