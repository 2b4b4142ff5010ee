// What the operator is told of hosts that are refused: a line for each host and reason, once.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs {

// Any thread.
class Refusals {
 public:
  // "HOST REASON", as a warning, unless that is among the last so many lines. Whether it was logged.
  bool Tell(const IpAddress& host, std::string_view reason);

 private:
  // A host that makes reasons up, or a network of hosts, repeats lines; memory stays as it is.
  static constexpr size_t kMostKept = 1000;

  std::mutex mutex_;
  std::set<std::string, std::less<>> told_;
};

}  // namespace penstock::nfs
