#include "rdma/iwarp/socket_timers.h"

namespace penstock::rdma::iwarp {

size_t SocketTimers::Earliest() const {
  size_t earliest = kTimers;
  for (size_t i = 0; i < kTimers; ++i) {
    if (!deadlines_[i]) continue;
    if (earliest == kTimers || *deadlines_[i] < *deadlines_[earliest]) earliest = i;
  }
  return earliest;
}

std::optional<TimePoint> SocketTimers::next_timeout() const {
  const size_t earliest = Earliest();
  return earliest == kTimers ? std::nullopt : deadlines_[earliest];
}

std::optional<SocketTimer> SocketTimers::TakeExpired(TimePoint now) {
  const size_t earliest = Earliest();
  if (earliest == kTimers || *deadlines_[earliest] > now) return std::nullopt;
  deadlines_[earliest].reset();
  return static_cast<SocketTimer>(earliest);
}

}  // namespace penstock::rdma::iwarp
