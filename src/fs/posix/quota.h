// Reads quotas from the kernel: quotactl_fd(2), or quotactl(2) with the file system's device on a kernel before 5.14.
#pragma once

#include <cstdint>
#include <optional>

#include "fs/quota.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Returns the quota of a user or group in the file system of an open file. Returns no value if the file system keeps no
// quotas of this kind. Fails with kPerm without CAP_SYS_ADMIN, unless the id is that of this process. May block.
Result<std::optional<Quota>> ReadQuota(int fd, QuotaKind kind, uint32_t id);

// Whether the file system keeps quotas of users or of groups. May block.
bool KeepsQuotas(int fd);

}  // namespace penstock::fs::posix
