// A protection domain of an adapter: the memory that its queue pairs may reach. Where windows keep connections apart,
// many connections share one domain; elsewhere each connection has its own.
#pragma once

#include <memory>
#include <vector>

#include "rdma/verbs/memory_registrar.h"
#include "rdma/verbs/slabs.h"
#include "rdma/verbs/traits.h"

namespace penstock::rdma::verbs {

// Registers each slab once, on first use, and keeps a stock of free windows. Belongs to one loop.
class ProtectionDomain : public SlabUser, public MemoryRegistrar {
 public:
  ProtectionDomain(ibv_context* context, Exposure exposure, std::shared_ptr<Slabs> slabs);
  ~ProtectionDomain() override;
  ProtectionDomain(const ProtectionDomain&) = delete;
  ProtectionDomain& operator=(const ProtectionDomain&) = delete;

  // Null if the adapter gave no domain (errno, right after construction).
  ibv_pd* pd() { return pd_; }

  bool Forget(size_t slab) override;
  ibv_mr* Find(ConstBytes bytes) override;
  ibv_mr* Register(ConstBytes bytes, int access) override;
  int Deregister(ibv_mr* registration) override;
  ibv_mw* TakeWindow(uint64_t entropy) override;
  void ReturnWindow(ibv_mw* window) override { windows_.push_back(window); }
  void DestroyWindow(ibv_mw* window) override;

 private:
  static constexpr size_t kWindowsAtATime = 64;

  const std::shared_ptr<Slabs> slabs_;
  const int slab_access_;
  ibv_pd* pd_;
  std::vector<ibv_mr*> registered_;  // the index is that of the slab; null: not registered
  std::vector<ibv_mw*> windows_;     // free
};

}  // namespace penstock::rdma::verbs
