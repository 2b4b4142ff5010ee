// Keeps listeners from using the last file descriptors of the process.
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

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/log_limit.h"

namespace penstock {

// Shared by all listeners of a process. It reserves the last descriptors for files, which the accepted connections
// need. Thread-safe.
class DescriptorShortage {
 public:
  using Clock = std::function<TimePoint()>;

  // `make_room` asks another thread to close unused descriptors soon.
  explicit DescriptorShortage(
      std::function<void()> make_room = [] {}, Clock now = &std::chrono::steady_clock::now)
      : make_room_(std::move(make_room)), now_(std::move(now)) {}

  // The number of descriptors that connections may not use.
  static rlim_t Reserved() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return std::clamp<rlim_t>(limit.rlim_cur / 8, 16, 256);
  }

  // Returns true if a listener may accept a connection now. Otherwise the listener asks again in a moment. If a peer is
  // waiting, this makes room for it.
  bool MayAccept(int listener, std::string_view transport) {
    if (HasSpare()) return true;
    pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 0) > 0) Tell(transport);
    return false;
  }

  // Reports that a peer waits because no descriptor is free. Listeners retry, and so report it often; the log shows it
  // once a minute.
  void Tell(std::string_view transport) {
    make_room_();
    if (!told_.Allows(now_())) return;
    log::warn(
        "cannot accept a connection ({}): the process has too many open files; it waits. {}, or serve fewer with "
        "--max-connections",
        transport, kRaiseTheDescriptorLimit);
  }

 private:
  // The kernel returns the lowest free number, so all numbers below it are in use.
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
