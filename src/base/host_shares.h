// Counts things of which hosts share a limited number, such as the calls that a server executes.
#pragma once

#include <cassert>
#include <cstddef>
#include <map>

#include "base/address.h"
#include "base/host.h"

namespace penstock {

// A host with n things may have another one only if more than 3n are free. So those of one host always leave room for
// the next host.
inline constexpr size_t kFreeForOne = 3;

struct ShareLimits {
  size_t all = 0;
  size_t per_host = 0;                // of one IPv4 address or IPv6 /64
  size_t free_for_one = kFreeForOne;  // zero: a host may have all that its own limit allows
};

// `Host` names a host. Not thread-safe.
template <class Host>
class Shares {
 public:
  explicit Shares(ShareLimits limits) : limits_(limits) {}

  // Whether the host may have one more.
  bool HasRoom(const Host& host) const {
    const auto found = by_host_.find(host);
    const size_t held = found == by_host_.end() ? 0 : found->second;
    return count_ < limits_.all && held < limits_.per_host && limits_.all - count_ > limits_.free_for_one * held;
  }
  // Counts one more. Returns false if the host may not have it.
  bool Take(const Host& host) {
    if (!HasRoom(host)) return false;
    ++by_host_[host];
    ++count_;
    return true;
  }
  // Counts one less.
  void Return(const Host& host) {
    const auto found = by_host_.find(host);
    assert(found != by_host_.end());
    if (--found->second == 0) by_host_.erase(found);
    --count_;
  }
  size_t count() const { return count_; }

 private:
  const ShareLimits limits_;
  size_t count_ = 0;
  std::map<Host, size_t> by_host_;
};

// The same for the host of any address.
class HostShares {
 public:
  using Limits = ShareLimits;
  explicit HostShares(Limits limits) : shares_(limits) {}

  bool HasRoom(const IpAddress& address) const { return shares_.HasRoom(HostOf(address)); }
  bool Take(const IpAddress& address) { return shares_.Take(HostOf(address)); }
  void Return(const IpAddress& address) { shares_.Return(HostOf(address)); }
  size_t count() const { return shares_.count(); }

 private:
  Shares<IpAddress> shares_;
};

}  // namespace penstock
