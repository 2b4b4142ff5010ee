// The peers that have connected and that the consumer has not taken yet: who of them must make room for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "base/address.h"

namespace penstock::rdma::iwarp {

// A listener accepts every peer, and keeps this many of them until it knows what they want. When there is one too many, the
// host that has most of them loses its oldest. So a host that leaves its connections silent loses them to its own next ones,
// and never makes another host wait. A host is what HostOf() says. Not thread-safe.
class PendingPeers {
 public:
  // One peer's, until it is destroyed. Outlived by its PendingPeers.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // In place of what Add() was given.
    void set_on_dropped(std::function<void()> on_dropped) { on_dropped_ = std::move(on_dropped); }

   private:
    friend class PendingPeers;
    using Host = std::map<IpAddress, std::list<Place*>>::iterator;
    Place(PendingPeers& all, uint64_t number, std::function<void()> on_dropped)
        : all_(all), number_(number), on_dropped_(std::move(on_dropped)) {}

    PendingPeers& all_;
    const uint64_t number_;  // in the order of Add()
    Host host_;
    std::list<Place*>::iterator at_;  // of the host's
    bool counted_ = true;             // false once it was dropped
    std::function<void()> on_dropped_;
  };

  // `places`: at least one.
  explicit PendingPeers(size_t places) : places_(places) {}
  ~PendingPeers();

  // A place for `peer`. Where all are taken, this drops another peer. `on_dropped` is called once at most, when the peer has
  // lost its place; it may destroy the place, and must not call Add().
  std::unique_ptr<Place> Add(const IpAddress& peer, std::function<void()> on_dropped);
  // Drops the oldest of the host that has most; of hosts that have as many, the oldest of all. False where there is nobody.
  bool DropOne();
  size_t size() const { return size_; }

 private:
  void Uncount(Place& place);

  const size_t places_;
  size_t size_ = 0;
  uint64_t next_number_ = 0;
  std::map<IpAddress, std::list<Place*>> hosts_;  // that have places, each host's oldest first
};

}  // namespace penstock::rdma::iwarp
