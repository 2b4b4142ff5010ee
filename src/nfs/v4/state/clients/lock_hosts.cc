#include "nfs/v4/state/clients/lock_hosts.h"

#include <cassert>

namespace penstock::nfs::v4 {
namespace {

constexpr char kPrefix = 'N';  // no dialect has it as its owner_space

}  // namespace

std::string LockHostKey(const LockHostName& host) { return kPrefix + host.address.to_string() + ' ' + host.name; }

RecoveryRecord LockHostRecord(const LockHostName& host, const IpAddress& ours) {
  return {.owner = LockHostKey(host), .principal = {.name = ours.to_string()}};
}

std::optional<RememberedHost> ParseLockHostRecord(const RecoveryRecord& record) {
  const std::string_view key = record.owner;
  const size_t space = key.find(' ');
  if (!key.starts_with(kPrefix) || space == std::string_view::npos) return std::nullopt;
  asio::error_code error;
  const IpAddress address = asio::ip::make_address(std::string(key.substr(1, space - 1)), error);
  if (error) return std::nullopt;
  const IpAddress ours = asio::ip::make_address(record.principal.name, error);
  return RememberedHost{.name = {address, std::string(key.substr(space + 1))}, .ours = error ? IpAddress() : ours};
}

LockHost* LockHosts::Find(const LockHostName& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

LockHost* LockHosts::Find(ClientId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

LockHost& LockHosts::Add(const LockHostName& name, TimePoint now) {
  assert(!Find(name) && HasRoom(name.address));
  ClientId id;
  do id = LockHostId(++last_);
  while (by_id_.contains(id));
  LockHost& host = by_id_.emplace(id, LockHost{.name = name, .id = id, .used = now}).first->second;
  by_name_.emplace(name, &host);
  ++at_[name.address];
  shares_.Take(name.address);
  host.by_use = by_use_.insert(by_use_.end(), &host);
  return host;
}

void LockHosts::Use(LockHost& host, TimePoint now) {
  host.used = now;
  by_use_.splice(by_use_.end(), by_use_, host.by_use);
}

void LockHosts::Remove(LockHost& host) {
  by_use_.erase(host.by_use);
  const auto at = at_.find(host.name.address);
  if (--at->second == 0) at_.erase(at);
  shares_.Return(host.name.address);
  by_name_.erase(host.name);
  by_id_.erase(ClientId(host.id));
}

std::vector<LockHost*> LockHosts::At(const IpAddress& address) {
  std::vector<LockHost*> hosts;
  for (auto each = by_name_.lower_bound({address, {}}); each != by_name_.end() && each->first.address == address;
       ++each)
    hosts.push_back(each->second);
  return hosts;
}

size_t LockHosts::CountAt(const IpAddress& address) const {
  const auto found = at_.find(address);
  return found == at_.end() ? 0 : found->second;
}

}  // namespace penstock::nfs::v4
