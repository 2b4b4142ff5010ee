#include "base/driven_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <asio/detail/reactor.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace penstock {
namespace {

// Asio's epoll set is a private member, and no method gives it away. An explicit instantiation may name it.
template <auto Member>
struct Revealed {
  friend int EpollSetOf(asio::detail::epoll_reactor& reactor) { return reactor.*Member; }
};
int EpollSetOf(asio::detail::epoll_reactor& reactor);
template struct Revealed<&asio::detail::epoll_reactor::epoll_fd_>;

// After so many functions the host gets its turn.
constexpr size_t kMostAtOnce = 256;

FileDescriptor Opened(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), what);
  return FileDescriptor(fd);
}

void AddToSet(int set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0) {
    throw std::system_error(errno, std::system_category(), "epoll_ctl");
  }
}

}  // namespace

struct DrivenLoop::Work {
  explicit Work(asio::io_context& context) : guard(asio::make_work_guard(context)) {}
  asio::executor_work_guard<asio::io_context::executor_type> guard;
};

DrivenLoop::DrivenLoop(Loop& loop)
    : loop_(loop),
      work_(std::make_unique<Work>(loop.context())),
      wakes_(Opened(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      both_(Opened(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
  AddToSet(both_.get(), EpollSetOf(asio::use_service<asio::detail::reactor>(loop.context())));
  AddToSet(both_.get(), wakes_.get());
  loop_.SetOnPost([this] { Wake(); });
}

DrivenLoop::~DrivenLoop() { loop_.SetOnPost({}); }

int DrivenLoop::descriptor() {
  // Work that began before is perhaps in Asio's queue, where the descriptor does not show it.
  if (!is_watched_.exchange(true)) Wake();
  return both_.get();
}

void DrivenLoop::Wake() {
  if (!is_watched_ || awake_.exchange(true)) return;
  const uint64_t one = 1;
  (void)!::write(wakes_.get(), &one, sizeof one);
}

// Before the work is done, so that work which is added meanwhile makes the descriptor readable again.
void DrivenLoop::NoteAwake() {
  if (!awake_.load(std::memory_order_relaxed)) return;
  uint64_t count = 0;
  // Otherwise another thread is about to write: the descriptor becomes readable, and the next call is here again.
  if (::read(wakes_.get(), &count, sizeof count) > 0) awake_.store(false);
}

void DrivenLoop::Finish() {
  work_.reset();
  loop_.Run();
}

void DrivenLoop::RunReady() {
  NoteAwake();
  running_ = true;
  size_t ran = 0;
  while (ran < kMostAtOnce && loop_.context().poll_one() > 0) ++ran;
  running_ = false;
  if (ran == kMostAtOnce) Wake();
}

void DrivenLoop::RunNext(std::optional<Duration> limit) {
  NoteAwake();
  running_ = true;
  if (limit) {
    loop_.context().run_one_for(*limit);
  } else {
    loop_.context().run_one();
  }
  running_ = false;
  // The host waits for the descriptor next, and that says nothing of what Asio has taken from its set.
  if (is_watched_) RunReady();
}

}  // namespace penstock
