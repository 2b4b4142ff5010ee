// The most slots that a session should use, so that the replies that all sessions keep fit into the memory for them
// (RFC 8881 §2.10.6.1). Sessions of RFC 8881 follow it by their targets, sessions of 2004 by CB_CREDITRECALL.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "nfs/v4/state/settings.h"

namespace penstock::nfs::v4 {

class SlotLimit {
 public:
  // The time that clients have to learn of a limit and to follow it. After that time the server checks whether memory
  // suffices, and may change the limit again.
  static constexpr Duration kTimeToFollow = std::chrono::seconds(10);

  explicit SlotLimit(const Settings& settings) : settings_(settings) {}

  // Whether kept replies of so many octets need too much memory.
  bool IsExceededBy(size_t kept_octets) const { return kept_octets > settings_.max_kept_octets; }

  enum class Change : uint8_t { kNone, kLowered, kRaised };
  // Halves the limit if the kept replies of all sessions need too much memory, and doubles it again if they need
  // little. Call it regularly.
  Change Adapt(size_t kept_octets, TimePoint now) {
    const bool too_many = IsExceededBy(kept_octets);
    const bool few = limit_ < settings_.max_slots && kept_octets < settings_.max_kept_octets / 2;
    if ((!too_many && !few) || now < changed_ + kTimeToFollow) return Change::kNone;
    changed_ = now;
    const uint32_t limit = std::min(limit_, settings_.max_slots);
    limit_ = too_many ? std::max(1u, limit / 2) : limit * 2;
    return too_many ? Change::kLowered : Change::kRaised;
  }
  uint32_t get() const { return limit_; }
  // Returns the most slots that a session may have if this many sessions share the total equally.
  uint32_t Share(size_t sessions) const {
    return std::max<uint32_t>(1, settings_.max_total_slots / static_cast<uint32_t>(sessions));
  }

 private:
  const Settings& settings_;
  uint32_t limit_ = UINT32_MAX;
  TimePoint changed_ = TimePoint::min();
};

}  // namespace penstock::nfs::v4
