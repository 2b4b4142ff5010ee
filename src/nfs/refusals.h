// Logs refused hosts: one line for each host and reason.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs {

// Thread-safe.
class Refusals {
 public:
  // Logs the warning "HOST REASON" unless it is among the recent lines. Returns true if it was logged.
  bool Tell(const IpAddress& host, std::string_view reason);

 private:
  // The number of remembered lines. A host with many reasons, or many hosts, may repeat lines, but memory stays
  // bounded.
  static constexpr size_t kMostKept = 1000;

  std::mutex mutex_;
  std::set<std::string, std::less<>> told_;
};

}  // namespace penstock::nfs
