// For tests: leases on files that a test breaks, as a local program would.
#pragma once

#include <cstddef>
#include <memory>

#include "fs/local_lease.h"

namespace penstock::fs {

// The leases on one file. It outlives the objects that Open() returns.
class TestLeases {
 public:
  LeaseReply Open() {
    ++asked;
    if (contended) return {.lease = nullptr, .contended = true};
    return {.lease = std::make_shared<Lease>(*this)};
  }

  bool contended = false;  // a local program has the file open for writing
  bool broken = false;     // a local program waits until the lease is given up
  size_t held = 0;
  size_t asked = 0;

 private:
  class Lease final : public LocalLease {
   public:
    explicit Lease(TestLeases& all) : all_(all) { ++all_.held; }
    ~Lease() override { --all_.held; }
    bool IsBroken() const override { return all_.broken; }

   private:
    TestLeases& all_;
  };
};

}  // namespace penstock::fs
