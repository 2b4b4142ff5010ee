// The part of an adapter that grants access to memory: it registers memory and hands out memory windows.
// ProtectionDomain is the registrar over libibverbs. The interface exists so that ExposedRegions and RequestBuilder are
// tested without a device.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/bytes.h"

namespace penstock::rdma::verbs {

class MemoryRegistrar {
 public:
  virtual ~MemoryRegistrar() = default;

  // Returns the registration, for local access, of the slab that holds `bytes`. Returns null if no slab holds them, or
  // if the registration fails (errno).
  virtual ibv_mr* Find(ConstBytes bytes) = 0;
  // Registers any memory. `access`: IBV_ACCESS_ flags. Returns null on failure (errno). The caller deregisters it.
  virtual ibv_mr* Register(ConstBytes bytes, int access) = 0;
  // Returns 0, or the value of errno that says why the adapter keeps the registration.
  virtual int Deregister(ibv_mr* registration) = 0;

  // Returns an unbound type 2 window, or null if the adapter has no more. `entropy` picks one of the free windows, so
  // that a window's key says little about other windows.
  virtual ibv_mw* TakeWindow(uint64_t entropy) = 0;
  // Takes back a window that is no longer bound, for the next TakeWindow().
  virtual void ReturnWindow(ibv_mw* window) = 0;
  // Deallocates a window that may still be bound.
  virtual void DestroyWindow(ibv_mw* window) = 0;
};

}  // namespace penstock::rdma::verbs
