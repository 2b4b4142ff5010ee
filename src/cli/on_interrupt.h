// What must be put in order when a signal asks the program to end.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"

namespace penstock::cli {

// While this exists: on SIGINT, SIGTERM or SIGHUP, `clean_up` runs on the loop, and then the signal ends the process. A
// signal that the process was started to ignore stays ignored. One at a time in a process.
class OnInterrupt {
 public:
  OnInterrupt(Loop& loop, std::function<void()> clean_up);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  class Signals;
  const std::unique_ptr<Signals> signals_;
};

}  // namespace penstock::cli
