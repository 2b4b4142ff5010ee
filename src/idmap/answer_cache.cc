#include "idmap/answer_cache.h"

namespace penstock::idmap {

const AnswerCache::Entry* AnswerCache::Find(const Query& query) {
  for (Part& part : PartsFor(query)) {
    const auto found = part.places.find(query.of);
    if (found == part.places.end()) continue;
    part.order.splice(part.order.begin(), part.order, found->second);
    return &found->second->second;
  }
  return nullptr;
}

void AnswerCache::Keep(const Query& query, Entry entry) {
  Parts& parts = PartsFor(query);
  for (Part& part : parts) {
    const auto found = part.places.find(query.of);
    if (found == part.places.end()) continue;
    part.order.erase(found->second);
    part.places.erase(found);
  }
  const size_t which = entry.account ? 0 : 1;
  Part& part = parts[which];
  if (limits_[which] == 0) return;
  if (part.order.size() == limits_[which]) {
    part.places.erase(part.order.back().first);
    part.order.pop_back();
  }
  part.order.emplace_front(query.of, std::move(entry));
  part.places.emplace(query.of, part.order.begin());
}

size_t AnswerCache::size() const {
  size_t sum = 0;
  for (const Parts& parts : parts_) {
    for (const Part& part : parts) sum += part.order.size();
  }
  return sum;
}

}  // namespace penstock::idmap
