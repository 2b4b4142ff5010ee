#include "client/nfs4/slot_table.h"

#include <algorithm>
#include <cassert>

namespace penstock::client::v4 {

SlotTable::SlotTable(uint32_t slots, uint32_t first)
    : slots_(std::max(slots, 1u), Slot{.sequence = first}), highest_(static_cast<uint32_t>(slots_.size()) - 1) {}

std::optional<SlotUse> SlotTable::Take() {
  for (uint32_t i = 0; i <= highest_; ++i) {
    if (slots_[i].state != State::kFree) continue;
    slots_[i].state = State::kInUse;
    ++in_use_;
    return SlotUse{i, slots_[i].sequence};
  }
  return std::nullopt;
}

std::optional<SlotUse> SlotTable::TakeDoubtful() {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kDoubtful) continue;
    slots_[i].state = State::kInUse;
    ++in_use_;
    return SlotUse{i, slots_[i].sequence};
  }
  return std::nullopt;
}

SlotTable::Slot& SlotTable::InUse(SlotUse use) {
  Slot& slot = slots_[use.slot];
  assert(slot.state == State::kInUse && slot.sequence == use.sequence);
  return slot;
}

void SlotTable::Give(Slot& slot, State state) {
  slot.state = state;
  --in_use_;
}

void SlotTable::HandleExecuted(SlotUse use) {
  Slot& slot = InUse(use);
  ++slot.sequence;  // zero follows the largest number (RFC 8881 §2.10.6.1)
  Give(slot, State::kFree);
}

void SlotTable::HandleRefused(SlotUse use) { Give(InUse(use), State::kFree); }

void SlotTable::HandleLost(SlotUse use) { Give(InUse(use), State::kDoubtful); }

void SlotTable::HandleLimits(uint32_t highest, uint32_t target) {
  for (size_t i = size_t{highest} + 1; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kInUse) slots_[i] = {};
  }
  HandleTarget(std::min(highest, target));
}

void SlotTable::HandleTarget(uint32_t target) { highest_ = std::min(target, static_cast<uint32_t>(slots_.size()) - 1); }

uint32_t SlotTable::highest_in_use() const {
  for (size_t i = slots_.size(); i-- > 0;) {
    if (slots_[i].state == State::kInUse) return static_cast<uint32_t>(i);
  }
  return 0;
}

}  // namespace penstock::client::v4
