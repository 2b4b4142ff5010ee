// Starts the threads of the library, so that they do not disturb the process that they belong to.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"

namespace penstock {

// While an instance lives, the calling thread takes no signals, and neither do the threads that it starts meanwhile,
// which inherit its mask. Signals that report a fault of the thread itself, such as SIGSEGV, stay as they are, so that
// the process's handlers for them still run.
class WithoutSignals {
 public:
  WithoutSignals();
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

// While an instance lives, a write of the calling thread to a closed connection (SIGPIPE), or beyond the largest size
// of a file (SIGXFSZ), fails with an error and nothing else. The kernel sends these signals to the thread that writes.
// send() has a flag against SIGPIPE, but sendfile() has none.
class WritesWithoutSignals {
 public:
  WritesWithoutSignals();
  ~WritesWithoutSignals();
  WritesWithoutSignals(const WritesWithoutSignals&) = delete;
  WritesWithoutSignals& operator=(const WritesWithoutSignals&) = delete;

 private:
  sigset_t before_{};
  sigset_t pending_{};  // before this object
};

// Names the calling thread for debuggers and top(1). At most 15 octets count.
void NameThread(const std::string& name);

// Starts a thread that runs `function`. The thread has this name ("penstock-..."), takes no signals (WithoutSignals),
// and its messages go to `logger`: by default where those of the calling thread go. Throws std::system_error if the
// system has no thread left.
std::thread StartThread(const std::string& name, std::move_only_function<void()> function,
                        std::shared_ptr<log::Logger> logger = log::ThreadLogger());

}  // namespace penstock
