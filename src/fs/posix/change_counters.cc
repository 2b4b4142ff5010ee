#include "fs/posix/change_counters.h"

#include <algorithm>

namespace penstock::fs::posix {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Some file systems store whole seconds, or only even seconds.
constexpr uint64_t kCoarsestTick = 3 * kSecond;
uint64_t Nanoseconds(const Timestamp& time) { return static_cast<uint64_t>(time.seconds) * kSecond + time.nanoseconds; }

}  // namespace

uint64_t ChangeCounters::Look(const File& file, const Timestamp& ctime) {
  Shard& shard = ShardOf(file);
  if (shard.size.load(std::memory_order_acquire) == 0) return Nanoseconds(ctime);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_file.find(file);
  if (found == shard.by_file.end() || found->second->ctime != ctime) return Nanoseconds(ctime);
  return found->second->change;
}

void ChangeCounters::NoteChange(const File& file, const PreAttributes& before, const Timestamp& ctime,
                                const Timestamp& now) {
  if (Nanoseconds(ctime) > before.change) return;  // the kernel's clock shows the change
  const uint64_t age = std::max(Nanoseconds(now), Nanoseconds(ctime)) - Nanoseconds(ctime);
  if (before.ctime == ctime && age > kCoarsestTick) return;
  Shard& shard = ShardOf(file);
  const std::lock_guard lock(shard.mutex);
  const auto [at, is_new] = shard.by_file.try_emplace(file);
  if (is_new) {
    shard.by_age.push_front({.file = file});
    at->second = shard.by_age.begin();
  } else {
    shard.by_age.splice(shard.by_age.begin(), shard.by_age, at->second);
  }
  // Two exports of the file may have reported the same value before their changes.
  const uint64_t counted = at->second->ctime == ctime ? at->second->change : 0;
  at->second->ctime = ctime;
  at->second->change = std::max(before.change, counted) + 1;
  if (shard.by_age.size() > kMaxFiles / kShards) {
    shard.by_file.erase(shard.by_age.back().file);
    shard.by_age.pop_back();
  }
  shard.size.store(shard.by_age.size(), std::memory_order_release);
}

}  // namespace penstock::fs::posix
