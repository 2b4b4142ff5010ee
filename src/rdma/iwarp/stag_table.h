// The memory of ours that one peer may reach, by steering tag.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rdma/endpoint.h"

namespace penstock::rdma::iwarp {

// 64 unpredictable bits. Drawn by the shell; tests bring their own.
using Entropy = std::function<uint64_t()>;

// STags are random (RFC 5042 §6.1.1: a peer must not be able to guess them), and each connection has a table of its own:
// what another connection has registered is simply not there (RFC 5041 §8.2), and a peer that guesses cannot even learn
// that it exists.
//
// Open addressing without probing: an STag is drawn until its low bits name a free slot, so that look-up is one
// comparison. A slot does not take the STag that it held before, so that none comes back soon.
class StagTable {
 public:
  // Uses the memory of regions outside of Find(): told when one is about to go.
  class User {
   public:
    virtual ~User() = default;
    virtual void HandleInvalidated(Stag stag) = 0;
  };

  explicit StagTable(Entropy entropy);
  void set_user(User* user) { user_ = user; }

  struct Region {
    Stag stag;
    bool used = false;
    Access access = Access::kRemoteRead;
    Bytes memory;
    uint64_t offset = 0;  // of memory[0], for the peer
  };

  const Region& Register(Bytes memory, Access access);
  // Null where it is not (or no longer) valid. Until the next Register() or Invalidate().
  const Region* Find(Stag stag) const {
    const Slot& slot = slots_[stag.value() & mask_];
    return slot.region.used && slot.region.stag == stag ? &slot.region : nullptr;
  }
  bool Invalidate(Stag stag);  // false where it was not valid
  // And accepts no more: the connection is lost.
  void InvalidateAll();
  size_t size() const { return used_; }

 private:
  struct Slot {
    Region region;
    Stag retired;
  };
  void Grow();

  Entropy entropy_;
  User* user_ = nullptr;
  std::vector<Slot> slots_;
  uint32_t mask_;
  size_t used_ = 0;
  bool closed_ = false;
  Region nowhere_;  // what Register() returns once closed
};

}  // namespace penstock::rdma::iwarp
