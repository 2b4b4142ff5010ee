// The regions of memory that the peer of one connection may reach, from their registration until they are invalidated.
// ExposedRegions decides how a region is opened and closed (a memory window or a registration of its own, see Exposure)
// and makes the work requests for it. The driver posts those requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "rdma/endpoint.h"
#include "rdma/verbs/memory_registrar.h"
#include "rdma/verbs/traits.h"
#include "rdma/verbs/work_request.h"

namespace penstock::rdma::verbs {

// One region. Shared by the endpoint's MemoryRegion, the table and the work requests about it.
struct ExposedRegion {
  Stag stag;
  uint64_t offset = 0;
  size_t length = 0;
  bool valid = false;        // the peer may reach it
  bool closing = false;      // its invalidation is posted
  ibv_mw* window = nullptr;  // set with Exposure::kWindow
  // With Exposure::kRegistration, or registered for the window alone because no slab holds the memory.
  ibv_mr* registration = nullptr;
};

// Returns the flag of libibverbs that permits a peer this access.
int RemoteAccessFlag(Access access);

class ExposedRegions {
 public:
  enum class Error : uint8_t {
    kCannotRegister,  // errno says why
    kNoWindow,        // the adapter has no more windows
  };

  // `registrar` must live until ReleaseRegistrations(). `entropy` makes steering tags hard to guess.
  ExposedRegions(const Traits& traits, MemoryRegistrar& registrar, std::function<uint32_t()> entropy)
      : traits_(traits), registrar_(registrar), entropy_(std::move(entropy)) {}

  // Returns a region that the peer cannot reach.
  static std::shared_ptr<ExposedRegion> MakeRegion(Bytes memory);

  // Lets the peer reach `memory` through `region`, which MakeRegion() returned. On success `region` is valid and has
  // its steering tag. The work request, if there is one, binds its window: the caller posts it before the tag goes to
  // the peer.
  Result<std::optional<WorkRequest>, Error> Expose(const std::shared_ptr<ExposedRegion>& region, Bytes memory,
                                                   Access access);

  // True if a work request invalidates the region, false if Retire() alone does.
  static bool InvalidatedByRequest(const ExposedRegion& region) { return region.window != nullptr; }
  // Returns the work request that invalidates the region's window, and marks the region as closing. `silent`: without a
  // completion.
  static WorkRequest MakeInvalidation(const std::shared_ptr<ExposedRegion>& region, Context context, bool silent);

  // Returns the region with this steering tag, or null.
  std::shared_ptr<ExposedRegion> Find(Stag stag) const;

  // Forgets the region and returns 0: the window is invalidated, or this call deregisters the memory, so the peer
  // cannot reach it any more. If the adapter keeps the registration, returns the value of errno: the caller must end
  // the connection (RFC 8166 §4.5.4).
  int Retire(ExposedRegion& region);

  // Call this at the end of the connection, before the queue pair is destroyed: a bound window keeps its queue pair in
  // use.
  void ReleaseWindows();
  // Call this after the queue pair is destroyed. The peer can then access no memory.
  void ReleaseRegistrations();

 private:
  Stag NextKey(uint32_t key);

  const Traits& traits_;
  MemoryRegistrar& registrar_;
  const std::function<uint32_t()> entropy_;
  std::unordered_map<uint32_t, std::shared_ptr<ExposedRegion>> regions_;  // the key is the steering tag
};

}  // namespace penstock::rdma::verbs
