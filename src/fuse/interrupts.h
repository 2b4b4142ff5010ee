// Finds out which of the processes that wait for a reply are being killed. The kernel tells of each signal, once for
// each request; most signals are to be handled by the process after the reply. Only a signal that kills ends the wait,
// as with the kernel's own NFS.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string_view>
#include <vector>

#include "base/loop.h"

namespace penstock::fuse {

// A request whose process has got a signal.
class Interrupted {
 public:
  virtual ~Interrupted() = default;
  // The process has got some signal.
  virtual void HandleSignal() = 0;
  // The process is being killed.
  virtual void HandleKill() = 0;
  virtual pid_t pid() const = 0;
};

// Whether /proc/TID/status and /proc/TID/stat show that a signal kills the thread, or that it has ended. A thread that
// ends by itself is not being killed, until somebody kills it.
bool IsBeingKilled(std::string_view status, std::string_view stat);

// Belongs to the loop.
class Interrupts {
 public:
  explicit Interrupts(Loop& loop);

  // libfuse tells of a signal, and may hold locks of the request.
  void HandleInterrupt(Interrupted& request);
  // The kernel will tell of no signal, because the process may be ending.
  void Watch(Interrupted& request);
  void Remove(Interrupted& request);

 private:
  void Check();
  void CheckAfter(Duration delay);

  std::vector<Interrupted*> requests_;
  std::vector<Interrupted*> signalled_;  // of these, those whose HandleSignal() is still to be called
  const std::unique_ptr<Timer> timer_;
  bool waits_ = false;
};

}  // namespace penstock::fuse
