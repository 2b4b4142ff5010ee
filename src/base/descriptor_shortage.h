// What listeners do where the process has few descriptors left, or none.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/log_limit.h"

namespace penstock {

// Any thread. One for all listeners of a process. The last descriptors are not for connections: those that are served need files.
class DescriptorShortage {
 public:
  using Clock = std::function<TimePoint()>;

  // `make_room` has descriptors closed that nobody uses: soon, by another thread, if there are any.
  explicit DescriptorShortage(
      std::function<void()> make_room = [] {}, Clock now = &std::chrono::steady_clock::now)
      : make_room_(std::move(make_room)), now_(std::move(now)) {}

  // How many of the process's descriptors are not for connections.
  static rlim_t Reserved() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return std::clamp<rlim_t>(limit.rlim_cur / 8, 16, 256);
  }

  // Whether a listener may accept a connection now. If not, it asks again in a moment: room is made for a peer that waits.
  bool MayAccept(int listener, std::string_view transport) {
    if (HasSpare()) return true;
    pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 0) > 0) Tell(transport);
    return false;
  }

  // A peer waits for want of a descriptor. Whoever says so tries again in a moment, so it comes often; it is logged once a minute.
  void Tell(std::string_view transport) {
    make_room_();
    if (!told_.Allows(now_())) return;
    log::warn(
        "cannot accept a connection ({}): the process has too many open files; it waits. Raise the limit "
        "of open "
        "files (ulimit -n, or LimitNOFILE= of systemd), or serve fewer with --max-connections",
        transport);
  }

 private:
  // The kernel gives the lowest number that is free, so all below it are in use.
  static bool HasSpare() {
    const int next = ::eventfd(0, EFD_CLOEXEC);
    if (next < 0) return false;
    ::close(next);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<rlim_t>(next) + Reserved() < limit.rlim_cur;
  }

  const std::function<void()> make_room_;
  const Clock now_;
  LogLimit told_;
};

}  // namespace penstock
