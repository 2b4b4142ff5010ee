#include "library/place.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace penstock::library {
namespace {

// The runtime whose loop this thread runs.
thread_local const void* runtime_of_thread = nullptr;

// Threads that are made meanwhile block all signals: the handlers of the host run on its own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Place::Place(const void* runtime, bool is_driven, std::function<void()> begin) : runtime_(runtime) {
  if (is_driven) {
    driven_.emplace(loop_);
    return;
  }
  const BlockedSignals blocked;
  thread_ = std::thread([this, begin = std::move(begin)] {
    ::pthread_setname_np(::pthread_self(), "penstock-loop");
    runtime_of_thread = runtime_;
    begin();
    loop_.Run();
  });
}

Place::~Place() {
  driven_.reset();
  loop_.Post([this] { Spawn(FinishAfterWorks()); });
  if (thread_.joinable()) {
    thread_.join();
  } else {
    loop_.Run();
  }
}

Task<void> Place::FinishAfterWorks() {
  while (activity.works > 0) {
    co_await activity.changed;
    co_await NextTurn(loop_);
  }
  loop_.Finish();
}

bool Place::RunsHere() const { return driven_ ? driven_->running() : runtime_of_thread == runtime_; }

}  // namespace penstock::library
