// PendingPeers counts the peers that have connected and that the consumer has not taken yet, and decides which peer
// loses its connection to make room for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "base/address.h"

namespace penstock::rdma::iwarp {

// A listener accepts every peer and keeps a limited number of them until their requests arrive. If one peer too many
// connects, the host with most pending peers loses the oldest of them. Therefore a host whose connections stay silent
// loses them to its own later ones, and does not delay other hosts. HostOf() determines the host of an address. Not
// thread-safe.
class PendingPeers {
 public:
  // The place of one peer. Its destructor frees the place. PendingPeers must outlive it.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Replaces the callback of Add().
    void set_on_dropped(std::function<void()> on_dropped) { on_dropped_ = std::move(on_dropped); }

   private:
    friend class PendingPeers;
    using Host = std::map<IpAddress, std::list<Place*>>::iterator;
    Place(PendingPeers& all, uint64_t number, std::function<void()> on_dropped)
        : all_(all), number_(number), on_dropped_(std::move(on_dropped)) {}

    PendingPeers& all_;
    const uint64_t number_;  // counts the calls of Add()
    Host host_;
    std::list<Place*>::iterator at_;  // the position in the list of the host
    bool counted_ = true;             // false after it was dropped
    std::function<void()> on_dropped_;
  };

  // `places` must be at least one.
  explicit PendingPeers(size_t places) : places_(places) {}
  ~PendingPeers();

  // Returns a place for `peer`. Drops another peer if all places are taken. `on_dropped` is called once when the peer
  // has lost its place, or never. It may destroy the place and must not call Add().
  std::unique_ptr<Place> Add(const IpAddress& peer, std::function<void()> on_dropped);
  // Drops the oldest peer of the host with most peers. If several hosts have most, drops the oldest of all their peers.
  // Returns false if no peer is pending.
  bool DropOne();
  size_t size() const { return size_; }

 private:
  void Uncount(Place& place);

  const size_t places_;
  size_t size_ = 0;
  uint64_t next_number_ = 0;
  std::map<IpAddress, std::list<Place*>> hosts_;  // hosts with places, the oldest place of each first
};

}  // namespace penstock::rdma::iwarp
