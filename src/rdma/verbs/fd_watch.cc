#include "rdma/verbs/fd_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace penstock::rdma::verbs {

struct FdWatch::State {
  State(Loop& loop, int fd, std::function<void()> f) : descriptor(loop.context(), fd), on_readable(std::move(f)) {}
  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
  bool ended = false;
};

// Asio closes the descriptor that it gets, so it gets a duplicate.
FdWatch::FdWatch(Loop& loop, int fd, std::function<void()> on_readable)
    : state_(std::make_shared<State>(loop, ::dup(fd), std::move(on_readable))) {
  Arm(state_);
}

FdWatch::~FdWatch() {
  state_->ended = true;
  asio::error_code ignored;
  state_->descriptor.close(ignored);
}

void FdWatch::Arm(const std::shared_ptr<State>& state) {
  auto& descriptor = state->descriptor;
  descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [state](const asio::error_code& error) {
    if (error || state->ended) return;
    state->on_readable();
    if (!state->ended) Arm(state);
  });
}

void SetNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace penstock::rdma::verbs
