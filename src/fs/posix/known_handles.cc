#include "fs/posix/known_handles.h"

namespace penstock::fs::posix {
namespace {

// The longest tick of a clock of Linux is 10 ms. Some file systems store whole hundredths of a second, seconds, or only
// even seconds.
constexpr uint32_t kMillisecond = 1'000'000;
constexpr int64_t kFineBirthTick = 50LL * kMillisecond;
constexpr int64_t kCoarseBirthTick = 3000LL * kMillisecond;

bool IsSettled(const Timestamp& born, const Timestamp& now) {
  const int64_t tick = born.nanoseconds % kMillisecond != 0 ? kFineBirthTick : kCoarseBirthTick;
  const int64_t seconds = now.seconds - born.seconds;
  if (seconds < 0 || seconds > 10) return seconds > 0;
  return seconds * 1000 * kMillisecond + now.nanoseconds - born.nanoseconds > tick;
}

}  // namespace

std::optional<Handle> KnownHandles::Find(Owner owner, const Stat& stat) {
  if (!stat.attributes.born) return std::nullopt;
  const size_t at = PlaceOf(owner, stat.attributes.fileid);
  Block& block = blocks_[at / kPlacesOfBlock];
  const std::lock_guard lock(block.mutex);
  if (!block.places) return std::nullopt;
  const Place& place = (*block.places)[at % kPlacesOfBlock];
  const bool is_same = place.owner == owner && place.fileid == stat.attributes.fileid &&
                       place.born == *stat.attributes.born && !place.handle.empty();
  return is_same ? std::optional(place.handle) : std::nullopt;
}

bool KnownHandles::MayKnow(Owner owner, uint64_t fileid) {
  const size_t at = PlaceOf(owner, fileid);
  Block& block = blocks_[at / kPlacesOfBlock];
  const std::lock_guard lock(block.mutex);
  if (!block.places) return false;
  const Place& place = (*block.places)[at % kPlacesOfBlock];
  return place.owner == owner && place.fileid == fileid && !place.handle.empty();
}

void KnownHandles::Keep(Owner owner, const Stat& stat, const Handle& handle, const Timestamp& now) {
  if (!stat.attributes.born || !IsSettled(*stat.attributes.born, now)) return;
  const size_t at = PlaceOf(owner, stat.attributes.fileid);
  Block& block = blocks_[at / kPlacesOfBlock];
  const std::lock_guard lock(block.mutex);
  if (!block.places) block.places = std::make_unique<std::array<Place, kPlacesOfBlock>>();
  (*block.places)[at % kPlacesOfBlock] = {owner, stat.attributes.fileid, *stat.attributes.born, handle};
}

}  // namespace penstock::fs::posix
