// Watches a file descriptor on a loop, and reports when it is readable. The descriptors of libibverbs and librdmacm
// need this: the libraries own them and read them.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"

namespace penstock::rdma::verbs {

// Watches from its construction to its destruction. The owner of the descriptor must not close it meanwhile.
class FdWatch {
 public:
  // Calls `on_readable` on the loop whenever the descriptor is readable. The callback reads all that there is to read,
  // and may destroy this watch.
  FdWatch(Loop& loop, int fd, std::function<void()> on_readable);
  ~FdWatch();

 private:
  struct State;
  static void Arm(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

// Sets O_NONBLOCK, so that a read from the descriptor does not wait.
void SetNonBlocking(int fd);

}  // namespace penstock::rdma::verbs
