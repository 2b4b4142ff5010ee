// The timers of one SocketDriver as a table of deadlines. The driver sets one timer of the loop to the earliest
// deadline, instead of a timer for each purpose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/timer.h"

namespace penstock::rdma::iwarp {

enum class SocketTimer : uint8_t {
  kNudge,  // if the peer has sent no FPDU yet, send a nudge (RdmapStream::Nudge)
  kDrain,  // time for the peer to receive the rest after Disconnect()
  kClose,  // time for the peer to close its half after this side has closed its own
  kStall,  // check whether the peer makes progress
};

class SocketTimers {
 public:
  // Replaces an earlier deadline of the same timer.
  void Set(SocketTimer timer, TimePoint deadline) { at(timer) = deadline; }
  void Cancel(SocketTimer timer) { at(timer).reset(); }
  void CancelAll() { deadlines_ = {}; }
  bool is_set(SocketTimer timer) const { return deadlines_[static_cast<size_t>(timer)].has_value(); }

  // The earliest deadline. Returns nullopt if no timer is set.
  std::optional<TimePoint> next_timeout() const;
  // Cancels and returns the timer with the earliest deadline that is not after `now`.
  std::optional<SocketTimer> TakeExpired(TimePoint now);

 private:
  static constexpr size_t kTimers = 4;
  using Deadlines = std::array<std::optional<TimePoint>, kTimers>;

  std::optional<TimePoint>& at(SocketTimer timer) { return deadlines_[static_cast<size_t>(timer)]; }
  // The index of the earliest deadline; kTimers if no timer is set.
  size_t Earliest() const;

  Deadlines deadlines_;
};

}  // namespace penstock::rdma::iwarp
