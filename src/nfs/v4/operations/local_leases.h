// Recalls delegations for programs on the server's host: see fs/local_lease.h.
#pragma once

#include <optional>

#include "base/task.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/files/files.h"

namespace penstock::nfs::v4 {

// Takes the lease that the requested delegation needs, on `file` in the current filehandle's file system. Returns
// nothing if the request needs no lease.
Task<std::optional<fs::LeaseReply>> OpenLeaseFor(const Compound& compound, Delegations::DelegationRequest request,
                                                 fs::Handle file);

// Call it when a lease may be broken. Checks all leases, and recalls the delegations on files for which programs wait.
Task<void> LookAtLocalLeases(const Services& services, Loop* loop);

// Call it periodically. Recalls the delegations of leases that are known to be broken, and revokes them in the end.
Task<void> RecallForLocalPrograms(const Services& services, Loop* loop);

}  // namespace penstock::nfs::v4
