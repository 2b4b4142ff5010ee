// Mounts a server's name space by NFS version 4.0, 4.1 or 4.2 (RFC 7530, RFC 8881, RFC 7862).
#pragma once

#include "base/workers.h"
#include "client/mount.h"
#include "client/nfs4/dialect.h"

namespace penstock::client::v4 {

// Establishes a session, or a client id in version 4.0, and learns the server's root and limits. If the server does
// not speak this dialect, the error has Status::kVersionMismatch.
Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect,
                                                  MountOptions options);

}  // namespace penstock::client::v4
