// Limits the octets that a UDP server sends to a host beyond the octets that came from there. The source of a datagram
// may be forged: without a limit, an attacker could direct a multiple of its own traffic at a victim.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "base/address.h"
#include "base/siphash.h"
#include "base/timer.h"

namespace penstock::rpc::udp {

// Without I/O. Belongs to one loop. Hosts share the places of a table of fixed size, chosen by a keyed hash.
class ReplyAllowance {
 public:
  struct Limits {
    size_t octets_per_second = 16 << 10;
    size_t burst = 64 << 10;  // for a host that was silent for a while
  };

  // `key` is random.
  ReplyAllowance(Limits limits, const SipKey& key) : limits_(limits), key_(key) {}

  // Returns true if a reply of `reply` octets may answer a call of `call` octets from this host. A reply that is not
  // longer than its call costs nothing.
  bool Spend(const IpAddress& host, size_t call, size_t reply, TimePoint now);

 private:
  static constexpr size_t kPlaces = 4096;

  const Limits limits_;
  const SipKey key_;
  // For each place, the time when everything that was sent so far will be paid for.
  using Places = std::array<TimePoint, kPlaces>;
  const std::unique_ptr<Places> paid_until_ = std::make_unique<Places>();
};

}  // namespace penstock::rpc::udp
