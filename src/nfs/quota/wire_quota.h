// A quota as RQUOTA sends it: in 32-bit numbers, in blocks, and with the time that is left.
#pragma once

#include <cstdint>

#include "fs/quota.h"
#include "protocol/rquota.h"

namespace penstock::nfs::quota {

// The block has at least 1 KiB, and as many octets as the largest number needs to fit. Limits and use are rounded up,
// so that no limit becomes zero, which would mean none. `now` is in seconds since 1970.
rquota::rquotablk WireQuota(const fs::Quota& quota, int64_t now);

}  // namespace penstock::nfs::quota
