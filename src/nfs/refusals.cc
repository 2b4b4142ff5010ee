#include "nfs/refusals.h"

#include <fmt/core.h>

#include "base/host.h"
#include "base/log.h"

namespace penstock::nfs {

bool Refusals::Tell(const IpAddress& host, std::string_view reason) {
  const std::string line = fmt::format("{} {}", Unmapped(host).to_string(), reason);
  {
    const std::lock_guard lock(mutex_);
    if (told_.contains(line)) return false;
    if (told_.size() >= kMostKept) told_.clear();
    told_.insert(line);
  }
  log::warn("{}", line);
  return true;
}

}  // namespace penstock::nfs
