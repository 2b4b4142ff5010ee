#include "rdma/verbs/protection_domain.h"

#include <utility>

namespace penstock::rdma::verbs {

ProtectionDomain::ProtectionDomain(ibv_context* context, Exposure exposure, std::shared_ptr<Slabs> slabs)
    : slabs_(std::move(slabs)),
      slab_access_(IBV_ACCESS_LOCAL_WRITE | (exposure == Exposure::kWindow ? IBV_ACCESS_MW_BIND : 0)),
      pd_(::ibv_alloc_pd(context)) {
  slabs_->Add(*this);
}

ProtectionDomain::~ProtectionDomain() {
  slabs_->Remove(*this);
  for (ibv_mw* window : windows_) ::ibv_dealloc_mw(window);
  for (ibv_mr* registration : registered_) {
    if (registration) ::ibv_dereg_mr(registration);
  }
  if (pd_) ::ibv_dealloc_pd(pd_);
}

ibv_mr* ProtectionDomain::Find(ConstBytes bytes) {
  const size_t index = slabs_->Find(bytes);
  if (index == Slabs::kNone) return nullptr;
  if (registered_.size() <= index) registered_.resize(slabs_->size());
  if (!registered_[index]) registered_[index] = Register(slabs_->slab(index), slab_access_);
  return registered_[index];
}

bool ProtectionDomain::Forget(size_t slab) {
  if (slab >= registered_.size() || !registered_[slab]) return true;
  if (::ibv_dereg_mr(registered_[slab]) != 0) return false;
  registered_[slab] = nullptr;
  return true;
}

ibv_mr* ProtectionDomain::Register(ConstBytes bytes, int access) {
  return ::ibv_reg_mr(pd_, const_cast<std::byte*>(bytes.data()), bytes.size(), access);
}

int ProtectionDomain::Deregister(ibv_mr* registration) { return ::ibv_dereg_mr(registration); }

ibv_mw* ProtectionDomain::TakeWindow(uint64_t entropy) {
  while (windows_.size() < kWindowsAtATime) {
    ibv_mw* window = ::ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    if (!window) break;
    windows_.push_back(window);
  }
  if (windows_.empty()) return nullptr;
  std::swap(windows_[entropy % windows_.size()], windows_.back());
  ibv_mw* window = windows_.back();
  windows_.pop_back();
  return window;
}

void ProtectionDomain::DestroyWindow(ibv_mw* window) { ::ibv_dealloc_mw(window); }

}  // namespace penstock::rdma::verbs
