#include "fs/posix/space_watch.h"

#include <sys/statvfs.h>
#include <time.h>

namespace penstock::fs::posix {
namespace {

constexpr int64_t kInterval = 100;

int64_t NowInMilliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

std::optional<bool> SpaceWatch::IsLow(int fd, Patience patience) {
  const int64_t now = NowInMilliseconds();
  if (now >= next_look_.load(std::memory_order_relaxed)) {
    if (patience == Patience::kNone) return std::nullopt;
    struct statvfs fs{};
    low_ = ::fstatvfs(fd, &fs) != 0 || fs.f_bavail < kLittle / fs.f_frsize;
    next_look_ = now + kInterval;
  }
  return low_.load(std::memory_order_relaxed);
}

}  // namespace penstock::fs::posix
