// A server's name space mounted by NFS version 4.0, 4.1 or 4.2: RFC 7530, RFC 8881, RFC 7862.
#pragma once

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client::v4 {

// Establishes a session or, in minor version 0, a client id, and learns the server's root and limits. The error of a server that does not speak this
// version has Status::kVersionMismatch.
Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, uint32_t minor_version,
                                                  MountOptions options);

}  // namespace penstock::client::v4
