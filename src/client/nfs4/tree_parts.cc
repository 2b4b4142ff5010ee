#include "client/nfs4/tree_parts.h"

#include <algorithm>

namespace penstock::client::v4 {

using nfs_protocol::SecurityFlavor;

ServerKey KeyOf(const Url& url, bool has_entrance) {
  return {url.host, url.port, url.security.value_or(SecurityFlavor::kSys), has_entrance};
}

uint32_t TreeParts::NumberOf(const TreePart& part) {
  const auto [at, is_new] = numbers_.try_emplace({part.above, KeyOf(part.url, part.entrance.has_value()), part.root},
                                                 static_cast<uint32_t>(parts_.size() + 1));
  if (is_new) parts_.push_back(part);
  return at->second;
}

Handle TreeParts::PlaceOf(const Handle& known) const {
  const auto at = places_.find(known);
  return at == places_.end() ? known : at->second;
}

Handle TreeParts::KnownAs(const Handle& place) const {
  const auto at = known_.find(place);
  return at == known_.end() ? place : at->second;
}

void TreeParts::Move(const Handle& known, const Handle& place) {
  if (const auto before = places_.find(known); before != places_.end()) {
    const auto at = known_.find(before->second);
    if (at != known_.end() && at->second == known) known_.erase(at);
    places_.erase(before);
  }
  if (place == known) return;
  if (places_.size() >= prune_at_) Prune();
  places_.emplace(known, place);
  if (!names_ || !names_->Knows(place)) known_.emplace(place, known);
}

void TreeParts::Prune() {
  if (!names_) return;
  const auto is_above = [this](const Handle& object) {
    return std::ranges::any_of(parts_, [&](const TreePart& part) { return part.above == object; });
  };
  std::erase_if(places_, [&](const auto& each) {
    const auto& [known, place] = each;
    if (names_->Knows(known) || is_above(known)) return false;
    const auto at = known_.find(place);
    if (at != known_.end() && at->second == known) known_.erase(at);
    return true;
  });
  prune_at_ = std::max(kFewObjects, 2 * places_.size());
}

}  // namespace penstock::client::v4
