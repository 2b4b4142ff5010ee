// Calls that came with memory which then could not be reached: RFC 8166 §4.5.3. Each has cost its connection; when its client
// sends it again, over another one, it is answered with ERR_CHUNK rather than allowed to cost that one too.
//
// A few of the last, and for a short time: clients reconnect at once, and XIDs come round again.
#pragma once

#include <algorithm>
#include <array>

#include "base/address.h"
#include "base/timer.h"
#include "rpc/transport.h"

namespace penstock::rpcrdma {

class RefusedCalls {
 public:
  static constexpr size_t kMost = 64;
  static constexpr Duration kAge = std::chrono::minutes(1);

  // The client is known by its address: its port changes with its connection.
  void Add(const IpAddress& client, rpc::Xid xid, TimePoint now) {
    calls_[next_] = {client, xid, now + kAge};
    next_ = (next_ + 1) % kMost;
    latest_ = now + kAge;
  }
  bool Contains(const IpAddress& client, rpc::Xid xid, TimePoint now) const {
    if (now >= latest_) return false;
    return std::ranges::any_of(
        calls_, [&](const Call& call) { return call.xid == xid && now < call.until && call.client == client; });
  }
  // False where Contains() is. Costs nothing.
  bool empty() const { return latest_ == TimePoint(); }

 private:
  struct Call {
    IpAddress client;
    rpc::Xid xid{};
    TimePoint until{};
  };
  std::array<Call, kMost> calls_{};  // in a ring
  size_t next_ = 0;
  TimePoint latest_{};
};

}  // namespace penstock::rpcrdma
