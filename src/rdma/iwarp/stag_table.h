// The memory that the peer of one stream may access, by steering tag (STag).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rdma/endpoint.h"

namespace penstock::rdma::iwarp {

// Returns 64 unpredictable bits at each call. The provider draws them from the system; tests have generators of their
// own.
using Entropy = std::function<uint64_t()>;

// STags are random, so that a peer cannot guess them (RFC 5042 §6.1.1). Each connection has its own table: an STag of
// another connection is unknown here (RFC 5041 §8.2), so that a peer that guesses cannot even learn that it exists.
//
// The table uses open addressing without probing: STags are drawn until the low bits of one name a free slot, so that a
// look-up is one comparison. A slot does not accept the STag that it held before, so that no STag is used again soon.
class StagTable {
 public:
  // A user of the memory of regions that does not call Find() before each use. The table notifies it before a region
  // ends.
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
    uint64_t offset = 0;  // the tagged offset of memory[0]
  };

  // The reference is valid until the next Register() or Invalidate().
  const Region& Register(Bytes memory, Access access);
  // Returns null if the STag is not valid. The pointer is valid until the next Register() or Invalidate().
  const Region* Find(Stag stag) const {
    const Slot& slot = slots_[stag.value() & mask_];
    return slot.region.used && slot.region.stag == stag ? &slot.region : nullptr;
  }
  // Returns false if the STag was not valid.
  bool Invalidate(Stag stag);
  // Ends all regions after the loss of the connection. Regions that are registered later are never valid.
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
  Region nowhere_;  // Register() returns it after InvalidateAll()
};

}  // namespace penstock::rdma::iwarp
