// Counts things of which hosts share a limited number, such as the calls that a server executes.
#pragma once

#include <cassert>
#include <cstddef>
#include <map>

#include "base/address.h"
#include "base/host.h"

namespace penstock {

// Not thread-safe.
class HostShares {
 public:
  struct Limits {
    size_t all = 0;
    size_t per_host = 0;  // of one IPv4 address or IPv6 /64
  };
  // A host with n things may have another one only if more than 3n are free. So those of one host always leave room for
  // the next host.
  static constexpr size_t kFreeForOne = 3;

  explicit HostShares(Limits limits) : limits_(limits) {}

  // Whether the host of the address may have one more.
  bool HasRoom(const IpAddress& address) const {
    const auto host = by_host_.find(HostOf(address));
    const size_t held = host == by_host_.end() ? 0 : host->second;
    return count_ < limits_.all && held < limits_.per_host && limits_.all - count_ > kFreeForOne * held;
  }
  // Counts one more. Returns false if the host may not have it.
  bool Take(const IpAddress& address) {
    if (!HasRoom(address)) return false;
    ++by_host_[HostOf(address)];
    ++count_;
    return true;
  }
  // Counts one less.
  void Return(const IpAddress& address) {
    const auto host = by_host_.find(HostOf(address));
    assert(host != by_host_.end());
    if (--host->second == 0) by_host_.erase(host);
    --count_;
  }
  size_t count() const { return count_; }

 private:
  const Limits limits_;
  size_t count_ = 0;
  std::map<IpAddress, size_t> by_host_;
};

}  // namespace penstock
