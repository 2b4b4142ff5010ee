#include "rdma/iwarp/pending_peers.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/host.h"

namespace penstock::rdma::iwarp {

PendingPeers::~PendingPeers() { assert(hosts_.empty()); }

PendingPeers::Place::~Place() {
  if (counted_) all_.Uncount(*this);
}

std::unique_ptr<PendingPeers::Place> PendingPeers::Add(const IpAddress& peer, std::function<void()> on_dropped) {
  std::unique_ptr<Place> place(new Place(*this, next_number_++, std::move(on_dropped)));
  place->host_ = hosts_.try_emplace(HostOf(peer)).first;
  std::list<Place*>& of_host = place->host_->second;
  place->at_ = of_host.insert(of_host.end(), place.get());
  ++size_;
  // The new place counts: if its host now has most places, that host loses one of its own.
  if (size_ > places_) DropOne();
  return place;
}

bool PendingPeers::DropOne() {
  const auto most = std::ranges::max_element(hosts_, [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front()->number_ > b.second.front()->number_;
  });
  if (most == hosts_.end()) return false;
  Place& place = *most->second.front();
  Uncount(place);
  const std::function<void()> on_dropped = std::exchange(place.on_dropped_, nullptr);
  on_dropped();
  return true;
}

void PendingPeers::Uncount(Place& place) {
  place.counted_ = false;
  place.host_->second.erase(place.at_);
  if (place.host_->second.empty()) hosts_.erase(place.host_);
  --size_;
}

}  // namespace penstock::rdma::iwarp
