// A loop inside of the loop of a host program, which waits for a descriptor and then has the loop do what is ready.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/data.h"
#include "base/loop.h"
#include "base/timer.h"

namespace penstock {

// Takes the place of Loop::Run(). One thread at a time uses it and the loop, except for Wake() and what Loop allows.
class DrivenLoop {
 public:
  // `loop` outlives it. Throws std::system_error if the system has no descriptors left.
  explicit DrivenLoop(Loop& loop);
  ~DrivenLoop();

  // Readable when RunReady() has something to do, for poll(2) and its kin. It costs calls of the system, which a host
  // that never asks for it does not pay.
  int descriptor();
  // Makes the descriptor readable until RunReady(). Call it after work was begun outside of the following methods: Asio
  // does not notice that work while nobody runs the loop. Thread-safe.
  void Wake();

  // Runs what is ready. Leaves some of it for the next call if there is much, so that the host gets its turn.
  void RunReady();
  // Waits until something is ready, for at most the limit, and runs it, or at least the first of it.
  void RunNext(std::optional<Duration> limit);
  // In place of them at the end: runs the loop until nothing is left to do after Loop::Finish(). Other threads may
  // still be in Loop::Post().
  void Finish();
  // Whether RunReady() or RunNext() runs. Thread-safe only for the thread that drives the loop.
  bool running() const { return running_; }

 private:
  void NoteAwake();

  Loop& loop_;
  struct Work;
  std::unique_ptr<Work> work_;  // keeps the loop from ending when it has nothing to do
  const FileDescriptor wakes_;
  const FileDescriptor both_;             // an epoll set with Asio's own set and wakes_
  std::atomic<bool> is_watched_ = false;  // the host has the descriptor
  std::atomic<bool> awake_ = false;
  bool running_ = false;
};

}  // namespace penstock
