#include "rdma/verbs/exposed_regions.h"

#include <cassert>
#include <utility>

namespace penstock::rdma::verbs {

int RemoteAccessFlag(Access access) {
  return access == Access::kRemoteRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

std::shared_ptr<ExposedRegion> ExposedRegions::MakeRegion(Bytes memory) {
  auto region = std::make_shared<ExposedRegion>();
  region->offset = reinterpret_cast<uintptr_t>(memory.data());
  region->length = memory.size();
  return region;
}

Result<std::optional<WorkRequest>, ExposedRegions::Error> ExposedRegions::Expose(
    const std::shared_ptr<ExposedRegion>& region, Bytes memory, Access access) {
  std::optional<WorkRequest> bind;
  if (ExposureFor(traits_) == Exposure::kRegistration) {
    const int local = access == Access::kRemoteWrite ? IBV_ACCESS_LOCAL_WRITE : 0;
    region->registration = registrar_.Register(memory, local | RemoteAccessFlag(access));
    if (!region->registration) return std::unexpected(Error::kCannotRegister);
    region->stag = Stag(region->registration->rkey);
  } else {
    region->window = registrar_.TakeWindow(entropy_());
    if (!region->window) return std::unexpected(Error::kNoWindow);
    region->stag = NextKey(region->window->rkey);
    bind.emplace();
    bind->operation = Operation::kInvalidate;
    bind->silent = true;
    bind->opcode = IBV_WR_BIND_MW;
    bind->access = access;
    bind->region = region;
    bind->local = memory;
  }
  region->valid = true;
  regions_.emplace(region->stag.value(), region);
  return bind;
}

// The key's last octet is ours to choose: never the one before.
Stag ExposedRegions::NextKey(uint32_t key) {
  const uint32_t last = key & 0xFF;
  return Stag((key & ~0xFFu) | ((last + 1 + entropy_() % 255) & 0xFF));
}

WorkRequest ExposedRegions::MakeInvalidation(const std::shared_ptr<ExposedRegion>& region, Context context,
                                             bool silent) {
  assert(!region->closing);
  region->closing = true;
  WorkRequest request;
  request.operation = Operation::kInvalidate;
  request.context = context;
  request.silent = silent;
  request.opcode = IBV_WR_LOCAL_INV;
  request.region = region;
  return request;
}

std::shared_ptr<ExposedRegion> ExposedRegions::Find(Stag stag) const {
  const auto found = regions_.find(stag.value());
  return found == regions_.end() ? nullptr : found->second;
}

int ExposedRegions::Retire(ExposedRegion& region) {
  region.valid = false;
  if (region.window) {
    region.window->rkey = region.stag.value();
    registrar_.ReturnWindow(std::exchange(region.window, nullptr));
  }
  if (region.registration) {
    // ReleaseRegistrations() tries again.
    if (const int error = registrar_.Deregister(region.registration); error != 0) return error;
    region.registration = nullptr;
  }
  regions_.erase(region.stag.value());
  return 0;
}

void ExposedRegions::ReleaseWindows() {
  for (auto& [stag, region] : regions_) {
    if (region->window) registrar_.DestroyWindow(std::exchange(region->window, nullptr));
  }
}

void ExposedRegions::ReleaseRegistrations() {
  for (auto& [stag, region] : regions_) {
    region->valid = false;
    if (region->registration) registrar_.Deregister(std::exchange(region->registration, nullptr));
  }
  regions_.clear();
}

}  // namespace penstock::rdma::verbs
