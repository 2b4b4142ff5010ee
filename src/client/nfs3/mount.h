// Mounts an export by NFS version 3 (RFC 1813).
#pragma once

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client::v3 {

// Opens the channel for `url`, asks the server's MOUNT service for the root of the export that holds url.path, and
// learns the server's limits. If several exports hold the path, the longest export path wins.
Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, MountOptions options);

}  // namespace penstock::client::v3
