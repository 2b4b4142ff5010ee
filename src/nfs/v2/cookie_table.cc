#include "nfs/v2/cookie_table.h"

#include <utility>

#include "base/mix.h"

namespace penstock::nfs::v2 {

uint32_t CookieTable::NumberOf(uint64_t host, const fs::Identity& directory, fs::Cookie cookie, Range range) {
  const auto in_range = [range](uint64_t hash) {
    const uint32_t number = static_cast<uint32_t>(hash) & 0x7fff'ffff;
    return (number == 0 ? 1 : number) | static_cast<uint32_t>(range);
  };
  const std::lock_guard lock(mutex_);
  Client& client = Use(host);
  Place place{.directory = std::hash<fs::Identity>{}(directory), .number = in_range(Mix(0, cookie.value()))};
  for (;; place.number = in_range(uint64_t{place.number} + 1)) {
    const uint64_t* const known = Find(client, place);
    if (!known) Keep(client, place, cookie.value());
    if (!known || *known == cookie.value()) return place.number;
  }
}

std::optional<fs::Cookie> CookieTable::CookieOf(uint64_t host, const fs::Identity& directory, uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (!by_host_.contains(host)) return std::nullopt;
  const uint64_t* const known = Find(Use(host), {std::hash<fs::Identity>{}(directory), number});
  if (!known) return std::nullopt;
  return fs::Cookie(*known);
}

size_t CookieTable::size() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const Client& client : by_use_) sum += client.recent.size() + client.older.size();
  return sum;
}

CookieTable::Client& CookieTable::Use(uint64_t host) {
  if (const auto known = by_host_.find(host); known != by_host_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return by_use_.front();
  }
  if (by_use_.size() >= clients_) {
    by_host_.erase(by_use_.back().host);
    by_use_.pop_back();
  }
  by_use_.push_front({.host = host, .recent = {}, .older = {}});
  by_host_.emplace(host, by_use_.begin());
  return by_use_.front();
}

const uint64_t* CookieTable::Find(Client& client, const Place& place) {
  if (const auto found = client.recent.find(place); found != client.recent.end()) return &found->second;
  const auto found = client.older.find(place);
  if (found == client.older.end()) return nullptr;
  const uint64_t cookie = found->second;
  client.older.erase(found);
  Keep(client, place, cookie);
  return &client.recent.find(place)->second;
}

void CookieTable::Keep(Client& client, const Place& place, uint64_t cookie) {
  if (client.recent.size() >= half_) {
    client.older = std::move(client.recent);
    client.recent = {};
  }
  client.recent.emplace(place, cookie);
}

}  // namespace penstock::nfs::v2
