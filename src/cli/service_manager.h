// The service manager that has started the program: systemd, or another one with its protocols sd_notify(3),
// sd_watchdog_enabled(3) and sd_listen_fds(3). It learns the server's state, and may pass listening sockets.
//
// Without a service manager all functions do nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/data.h"
#include "base/result.h"
#include "base/timer.h"
#include "server/parts.h"

namespace penstock::cli {

// Whether the program can speak to a service manager: it was built with libsystemd.
bool HasServiceManagerSupport();
// Logs a warning if a service manager wants to hear from a program that cannot speak to it.
void WarnOfMissingSupport();

// Tells the service manager the state of the server. `status` is a line for people. Thread-safe.
void NotifyReady(const std::string& status);
void NotifyReloading();
void NotifyStatus(const std::string& status);
void NotifyStopping();

// Takes the sockets that the service manager passes to this process, and removes their description from the
// environment, so that child processes do not take them. Call it before other threads exist. The error is for the
// operator.
SetupResult<server::PassedSockets> TakePassedSockets();

struct NamedSocket {
  FileDescriptor socket;
  std::string name;  // FileDescriptorName= of the socket unit
};
// Finds the transport of each socket by its name, and checks it: its type, its addresses, whether it listens. Makes it
// non-blocking.
SetupResult<server::PassedSockets> SortSockets(std::vector<NamedSocket> sockets);

// Tells the service manager now and then that the server lives, and what it does. A server with a loop that hangs does
// not tell, so that the service manager ends it and starts another one (WatchdogSec= of the unit).
class LifeSigns {
 public:
  // The functions are called on a thread of this object, while it lives.
  struct Sources {
    // Whether each loop of the server answers within the limit. Blocks for no longer.
    std::function<bool(Duration limit)> loops_answer;
    std::function<std::string()> status;
  };
  explicit LifeSigns(Sources sources);
  // Ends the thread. Blocks for a part of the interval of the watchdog, if a loop hangs.
  ~LifeSigns();

 private:
  void Run();

  const Sources sources_;
  // How long the service manager waits for a sign of life; nothing if it does not watch.
  const std::optional<Duration> watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // guarded by the mutex
  std::thread thread_;  // none if nobody listens
};

}  // namespace penstock::cli
