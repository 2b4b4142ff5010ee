// Who created an object that the server's user owns.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/timer.h"

namespace penstock::fs::posix {

// A server without root's rights cannot give a new object to the caller that creates it. The object belongs to the
// server's user, and its mode may admit only the owner. So the creator counts as the owner as long as any client has
// the file open (version 4): opens of the same file share one pin, which does not say whose they are. Otherwise it does
// so until it has left the object alone for a while: long enough for the calls that belong to one use of a file
// (CREATE, WRITE, COMMIT, SETATTR). Any thread.
class CreatorMark {
 public:
  static constexpr auto kLasts = std::chrono::seconds(90);

  void Set(uint32_t uid, TimePoint now) { mark_.store(Encode(uid, now), std::memory_order_relaxed); }

  // Whether this caller is the creator, and still counts as the owner. If so, the time begins again. `open`: whether
  // a client has the file open, so that the time does not matter.
  bool Admits(uint32_t uid, TimePoint now, bool open) {
    const uint64_t mark = mark_.load(std::memory_order_relaxed);
    if (mark == 0 || mark >> 32 != uid) return false;
    const uint64_t renewed = Encode(uid, now);
    const uint64_t age = renewed - std::min(mark, renewed);
    if (!open && age > static_cast<uint64_t>(kLasts.count())) return false;
    if (renewed != mark) mark_.store(renewed, std::memory_order_relaxed);
    return true;
  }

 private:
  // The uid in the upper half, the seconds in the lower half; zero is no mark.
  static uint64_t Encode(uint32_t uid, TimePoint now) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    return uint64_t{uid} << 32 | static_cast<uint32_t>(seconds);
  }

  std::atomic<uint64_t> mark_ = 0;
};

}  // namespace penstock::fs::posix
