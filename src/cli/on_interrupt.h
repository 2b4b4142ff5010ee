// Cleans up when a signal ends the program.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"

namespace penstock::cli {

// While this object lives: on SIGINT, SIGTERM or SIGHUP, `clean_up` runs on the loop, and then the signal ends the
// process. A signal that was ignored when the process started stays ignored. A process has at most one such object at a
// time.
class OnInterrupt {
 public:
  OnInterrupt(Loop& loop, std::function<void()> clean_up);
  // The same for a cleaning that takes time: it calls `end` when it is done, and then the signal ends the process. A
  // second signal ends the process at once.
  OnInterrupt(Loop& loop, std::function<void(std::function<void()> end)> clean_up);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  class Signals;
  const std::unique_ptr<Signals> signals_;
};

}  // namespace penstock::cli
