#include "client/nfs4/delegation_table.h"

#include <algorithm>
#include <functional>

namespace penstock::client::v4 {

// ---- Delegation ----

void Delegation::Remember(const Attributes& attributes, uint32_t names) {
  attributes_ = attributes;
  was_read_ = false;
  names_ = names;
  size_ = attributes.size;
  if (!first_change_) change_ = first_change_.emplace(attributes.change);
}

void Delegation::HandleChange() {
  attributes_.reset();
  modified_ = true;
}

void Delegation::HandleWrite(uint64_t end) {
  HandleChange();
  size_ = std::max(size_, end);
}

void Delegation::HandleSize(uint64_t size) {
  HandleChange();
  size_ = size;
}

// Nobody else has changed the file, but what the client has changed may be lost: the server tells the attributes.
void Delegation::Continue(const Delegation& before) {
  opened_ |= before.opened_;
  first_change_ = before.first_change_;
  change_ = before.change_;
  size_ = before.size_;
  modified_ = before.modified_;
}

// ---- ChangeCounts ----

size_t ChangeCounts::PlaceOf(const Handle& file) {
  return std::hash<std::string_view>()(AsText(file.bytes())) % kPlaces;
}

// ---- DelegationTable ----

DelegationTable::Pointer DelegationTable::Add(Pointer delegation) {
  const Handle& file = delegation->handle();
  Pointer before = Find(file);
  if (before) Remove(*before);
  by_file_[file] = entries_.insert(entries_.end(), std::move(delegation));
  return before;
}

DelegationTable::Pointer DelegationTable::Find(const Handle& file) {
  const auto found = by_file_.find(file);
  if (found == by_file_.end()) return nullptr;
  entries_.splice(entries_.end(), entries_, found->second);
  return *found->second;
}

DelegationTable::Pointer DelegationTable::Peek(const Handle& file) const {
  const auto found = by_file_.find(file);
  return found == by_file_.end() ? nullptr : *found->second;
}

DelegationTable::Pointer DelegationTable::Find(const nfs4::stateid4& stateid) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Pointer& each) { return each->stateid().other == stateid.other; });
  return found == entries_.end() ? nullptr : *found;
}

void DelegationTable::Remove(const Delegation& delegation) {
  const auto found = by_file_.find(delegation.handle());
  if (found == by_file_.end() || found->second->get() != &delegation) return;
  entries_.erase(found->second);
  by_file_.erase(found);
}

DelegationTable::Pointer DelegationTable::LeastUsed(uint64_t epoch) const {
  const auto may_go = [&](const Pointer& each) {
    return each->users().empty() && !each->returning() && each->epoch() == epoch;
  };
  const auto found = std::ranges::find_if(entries_, may_go);
  return found == entries_.end() ? nullptr : *found;
}

std::vector<DelegationTable::Pointer> DelegationTable::Surplus(size_t keep, Kind kind, uint64_t epoch) const {
  std::vector<Pointer> idle;
  std::vector<Pointer> used;
  for (const Pointer& each : entries_) {
    if (each->returning() || each->epoch() != epoch) continue;
    if (kind != Kind::kAny && each->writes() != (kind == Kind::kWrite)) continue;
    (each->users().empty() ? idle : used).push_back(each);
  }
  const size_t count = idle.size() + used.size();
  idle.insert(idle.end(), used.begin(), used.end());
  idle.resize(count > keep ? count - keep : 0);
  return idle;
}

}  // namespace penstock::client::v4
