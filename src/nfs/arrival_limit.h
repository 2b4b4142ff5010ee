// Limits the time that a WRITE waits for data that are still arriving.
#pragma once

#include <chrono>
#include <memory>

#include "base/data.h"
#include "base/loop.h"

namespace penstock::nfs {

// While a WRITE is executed, the client may already send it again over another connection, or lose the lock that allows
// it. So it ends soon, and reports the octets that have arrived: a WRITE may write less than the client has asked for
// (RFC 1813 §3.3.7, RFC 8881 §18.32.3), and the client sends the rest.
class ArrivalLimit {
 public:
  static constexpr Duration kLimit = std::chrono::seconds(2);

  // `loop` is that of the caller; null in a simulation, where the end of the connection is the only limit.
  ArrivalLimit(Loop* loop, const Data& data, Duration limit = kLimit) {
    if (!loop || !data.arriving()) return;
    timer_ = loop->MakeTimer([data] { data.EndArrival(); });
    timer_->ExpireAfter(limit);
  }

 private:
  std::unique_ptr<Timer> timer_;  // null if the data are there
};

}  // namespace penstock::nfs
