// A file descriptor of somebody else's, watched on a loop for as long as this lives.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"

namespace penstock::rdma::verbs {

class FdWatch {
 public:
  // `on_readable` is called on the loop whenever there is something to be read; it reads all there is. May destroy this.
  FdWatch(Loop& loop, int fd, std::function<void()> on_readable);
  ~FdWatch();

 private:
  struct State;
  static void Arm(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

// What is read from it then does not wait.
void SetNonBlocking(int fd);

}  // namespace penstock::rdma::verbs
