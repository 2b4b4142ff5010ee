#include "base/thread.h"

#include <pthread.h>

#include <array>
#include <cassert>
#include <ctime>
#include <utility>

namespace penstock {
namespace {

constexpr size_t kLongestThreadName = 15;  // of a thread

sigset_t WriteSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

WithoutSignals::WithoutSignals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&blocked, fault);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

WithoutSignals::~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

WritesWithoutSignals::WritesWithoutSignals() {
  ::sigpending(&pending_);
  const sigset_t blocked = WriteSignals();
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

WritesWithoutSignals::~WritesWithoutSignals() {
  // Signals that came meanwhile would be delivered now.
  for (const int each : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&before_, each) == 1 || sigismember(&pending_, each) == 1) continue;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, each);
    constexpr timespec kAtOnce{};
    ::sigtimedwait(&set, nullptr, &kAtOnce);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void NameThread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, kLongestThreadName).c_str());
}

std::thread StartThread(const std::string& name, std::move_only_function<void()> function,
                        std::shared_ptr<log::Logger> logger) {
  assert(name.size() <= kLongestThreadName);
  const WithoutSignals without_signals;
  return std::thread([name, run = std::move(function), to = std::move(logger)]() mutable {
    NameThread(name);
    const log::ThreadLoggerScope scope(std::move(to));
    run();
  });
}

}  // namespace penstock
