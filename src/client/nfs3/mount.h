// An export mounted by NFS version 3: RFC 1813.
#pragma once

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client::v3 {

// Opens the channel for `url`, asks the server's MOUNT service for the root of the export that url.path lies in (the
// longest export that is a prefix of it), and learns its limits.
Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, MountOptions options);

}  // namespace penstock::client::v3
