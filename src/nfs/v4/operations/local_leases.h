// Delegations are recalled for programs of the server's own host: see fs/local_lease.h.
#pragma once

#include <optional>

#include "base/task.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/files/files.h"

namespace penstock::nfs::v4 {

// The lease that is to be had before the delegation that is asked for: on `file`, in the file system of the current
// filehandle. Nothing where the answer will be another one.
Task<std::optional<fs::LeaseReply>> OpenLeaseFor(const Compound& compound, Delegations::DelegationRequest request,
                                                 fs::Handle file);

// Some lease may have been broken: looks at all of them, and recalls the delegations on files that programs wait for.
Task<void> LookAtLocalLeases(const Services& services, Loop* loop);

// The same for leases that are known to be broken: their delegations are revoked in the end. To be done from time to
// time.
Task<void> RecallForLocalPrograms(const Services& services, Loop* loop);

}  // namespace penstock::nfs::v4
