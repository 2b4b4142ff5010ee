#include "metrics/loop_counts.h"

#include <cassert>

namespace penstock::metrics {

InterfaceCounts::InterfaceCounts(const Interface& of) : interface_(of), counts_(of.operations.size() + 1) {}

InterfaceCounts::~InterfaceCounts() {
  for (auto& each : counts_) delete each.load(std::memory_order_relaxed);
}

OperationCounts& InterfaceCounts::Make(uint32_t operation) {
  size_t index = 0;
  while (index < interface_.operations.size() && interface_.operations[index].number != operation) ++index;
  OperationCounts* counts = counts_[index].load(std::memory_order_relaxed);
  if (!counts) {
    const bool is_listed = index < interface_.operations.size();
    counts = new OperationCounts(is_listed ? interface_.operations[index].status : StatusPlace::kNone);
    counts_[index].store(counts, std::memory_order_release);
  }
  if (operation < kDense) dense_[operation] = counts;
  return *counts;
}

bool NamedExports::Has(uint32_t id, size_t used) const {
  for (size_t i = 0; i < used; ++i) {
    if (ids_[i].load(std::memory_order_relaxed) == id) return true;
  }
  return false;
}

bool NamedExports::Admit(uint32_t id) {
  const size_t seen = used_.load(std::memory_order_acquire);
  if (Has(id, seen)) return true;
  if (seen == kMost) return false;
  const std::lock_guard lock(mutex_);
  const size_t used = used_.load(std::memory_order_relaxed);
  if (Has(id, used)) return true;
  if (used == kMost) return false;
  ids_[used].store(id, std::memory_order_relaxed);
  used_.store(used + 1, std::memory_order_release);
  return true;
}

ExportCounts& ExportTable::Search(uint32_t id, size_t used) {
  for (size_t i = 0; i < used; ++i) {
    if (entries_[i]->id != id) continue;
    last_ = i;
    return entries_[i]->counts;
  }
  if (!named_.Admit(id)) return others_;
  entries_[used] = std::make_unique<Entry>();
  entries_[used]->id = id;
  last_ = used;
  used_.store(used + 1, std::memory_order_release);
  return entries_[used]->counts;
}

LoopCounts::LoopCounts(std::span<const Interface> interfaces, const Clock& clock, NamedExports& named)
    : exports(named), clock_(clock) {
  for (const Interface& each : interfaces) {
    assert(each.status_name);
    keys_.push_back(std::bit_cast<uint64_t>(each.key));
    interfaces_.push_back(std::make_unique<InterfaceCounts>(each));
  }
}

}  // namespace penstock::metrics
