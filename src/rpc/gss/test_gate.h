// For tests: a gate at which threads wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace penstock::rpc::gss {

// A gate at which threads wait until the test opens it.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    // With a time limit: if the test's own thread waits here, the test must still end.
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; })) forced_ = true;
    --waiting_;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // True if a wait has reached the time limit: the test could not open the gate, or an expected thread did not come.
  bool forced() {
    const std::lock_guard lock(mutex_);
    return forced_;
  }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
  bool forced_ = false;
};

}  // namespace penstock::rpc::gss
