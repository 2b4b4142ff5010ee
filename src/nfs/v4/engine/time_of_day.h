// The time of day on this host, with which the server compares times that clients report.
#pragma once

#include <chrono>

#include "fs/types.h"

namespace penstock::nfs::v4 {

// Any thread.
inline fs::Timestamp SystemTime() {
  using std::chrono::nanoseconds;
  const auto now = std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  return {.seconds = seconds.count(), .nanoseconds = static_cast<uint32_t>((now - seconds).count())};
}

}  // namespace penstock::nfs::v4
