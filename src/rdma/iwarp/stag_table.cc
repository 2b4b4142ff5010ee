#include "rdma/iwarp/stag_table.h"

#include <cassert>

namespace penstock::rdma::iwarp {

StagTable::StagTable(Entropy entropy) : entropy_(std::move(entropy)), slots_(16), mask_(15) {}

const StagTable::Region& StagTable::Register(Bytes memory, Access access) {
  if (!closed_ && (used_ + 1) * 2 > slots_.size()) Grow();
  for (;;) {
    const uint64_t draw = entropy_();
    const Stag stag(static_cast<uint32_t>(draw));
    Region region{stag, !closed_, access, memory, draw >> 32 << 12};
    if (closed_) return nowhere_ = region;
    Slot& slot = slots_[stag.value() & mask_];
    // Zero is never an STag: a peer that leaves the field unset must not access memory.
    if (slot.region.used || slot.retired == stag || stag == Stag(0)) continue;
    slot.region = region;
    ++used_;
    return slot.region;
  }
}

bool StagTable::Invalidate(Stag stag) {
  const Region* region = Find(stag);
  if (!region) return false;
  // Only octets that the peer reads may still wait to be sent. Octets that it writes are placed at once.
  if (user_ && region->access == Access::kRemoteRead) user_->HandleInvalidated(stag);
  Slot& slot = slots_[stag.value() & mask_];
  slot.region = {};
  slot.retired = stag;
  --used_;
  return true;
}

void StagTable::InvalidateAll() {
  for (Slot& slot : slots_) slot.region = {};
  used_ = 0;
  closed_ = true;
}

void StagTable::Grow() {
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  mask_ = static_cast<uint32_t>(slots_.size() - 1);
  for (Slot& slot : old) {
    // Regions in different slots of the old table have different slots in the new one.
    if (slot.region.used) slots_[slot.region.stag.value() & mask_].region = slot.region;
    slots_[slot.retired.value() & mask_].retired = slot.retired;
  }
}

}  // namespace penstock::rdma::iwarp
