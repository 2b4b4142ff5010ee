#include "nfs/v4/state/stable/recovery.h"

#include <algorithm>
#include <ranges>

namespace penstock::nfs::v4 {

SetupResult<RecoveryStore::Restart> MemoryRecoveryStore::Begin(Duration lease, std::chrono::sys_seconds wall_clock) {
  const auto seconds = static_cast<uint32_t>(wall_clock.time_since_epoch().count());
  instance_ = std::max(instance_ + 1, seconds);
  Restart restart{.instance = instance_, .last_lease = std::exchange(lease_, lease), .clients = {}};
  for (const Entry& entry : entries_) restart.clients.push_back(entry.client);
  return restart;
}

bool MemoryRecoveryStore::Record(const RecoveryRecord& client) {
  Remove(client.owner);
  entries_.push_back({client, instance_});
  return true;
}

bool MemoryRecoveryStore::Remove(const std::string& owner) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.client.owner == owner; });
  return true;
}

bool MemoryRecoveryStore::EndGrace() {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.instance != instance_; });
  return true;
}

}  // namespace penstock::nfs::v4
