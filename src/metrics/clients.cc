#include "metrics/clients.h"

#include "base/host.h"

namespace penstock::metrics {

ClientSums ClientTable::Client::Sum() const {
  ClientSums sums;
  for (const ClientShare& each : shares_) sums.Add(each);
  sums.connections = connections_;
  return sums;
}

std::shared_ptr<ClientTable::Client> ClientTable::Enter(const IpAddress& address) {
  const IpAddress key = Unmapped(address);
  const std::lock_guard lock(mutex_);
  for (const auto& each : clients_) {
    if (each->address_ != key) continue;
    ++each->connections_;
    return each;
  }
  if (clients_.size() >= kMost) {
    auto oldest = clients_.end();
    for (auto each = clients_.begin(); each != clients_.end(); ++each) {
      if ((*each)->connections_ > 0) continue;
      if (oldest == clients_.end() || (*each)->left_ < (*oldest)->left_) oldest = each;
    }
    if (oldest == clients_.end()) {
      ++others_->connections_;
      return others_;
    }
    gone_.Add((*oldest)->Sum());
    clients_.erase(oldest);
  }
  const auto& added = clients_.emplace_back(std::make_shared<Client>(loops_));
  added->address_ = key;
  added->connections_ = 1;
  return added;
}

void ClientTable::Leave(Client& client) {
  const std::lock_guard lock(mutex_);
  --client.connections_;
  client.left_ = ++clock_;
}

}  // namespace penstock::metrics
