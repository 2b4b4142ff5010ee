#include "nfs/v4/operations/local_leases.h"

#include <algorithm>
#include <vector>

#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

Task<std::optional<fs::LeaseReply>> OpenLeaseFor(const Compound& compound, Delegations::DelegationRequest request,
                                                 fs::Handle file) {
  const bool needs_lease = compound.services.state.Run([&](StateTables& state) {
    request.facts.can_call_back = state.CanCall(request.client);
    return state.files.delegations.NeedsLocalLease(request, compound.now());
  });
  if (!needs_lease) co_return std::nullopt;
  const Object& object = *compound.current;
  co_return co_await object.file_system().OpenLease(object.context(), file);
}

Task<void> LookAtLocalLeases(const Services& services, Loop* loop) {
  // Each check is a system call. The batches are small, so that no caller waits for State::Run() until thousands are
  // done.
  constexpr size_t kAtOnce = 128;
  size_t left = services.state.Run([&](StateTables& state) { return state.files.delegations.local_leases(); });
  while (left > 0) {
    const size_t count = std::min(left, kAtOnce);
    services.state.Run([&](StateTables& state) { state.files.delegations.LookAtLocalLeases(count); });
    left -= count;
  }
  co_await RecallForLocalPrograms(services, loop);
}

Task<void> RecallForLocalPrograms(const Services& services, Loop* loop) {
  const std::vector<NamedFile> files =
      services.state.Run([&](StateTables& state) { return state.files.delegations.FilesWithBrokenLease(); });
  for (const NamedFile& file : files) {
    FileUses none;
    const Asker program{services, loop, PresenterWithoutSession(), none};
    // The program waits for the lease, which ends with the last delegation.
    (void)co_await Recall(program, file, std::nullopt, Delegations::Use::kWrite);
  }
}

}  // namespace penstock::nfs::v4
