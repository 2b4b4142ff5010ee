// Mounts a server by NFS version 4, follows the referrals in its tree to the file systems of other servers (RFC 8881
// §11.5.6, RFC 7530 §8.4.3), and changes to other security flavors where the server requires them (RFC 8881 §2.6.3).
#pragma once

#include "base/workers.h"
#include "client/mount.h"
#include "client/nfs4/dialect.h"

namespace penstock::client::v4 {

// Mounts the server of `url` (see OpenServer()). A lookup that reaches the root of an absent file system asks for its
// locations, tries them in the server's order, and returns the root of the file system there. The other servers are
// mounted with the options of `url`, except for host, port and path, when a referral first leads to them. They stay
// mounted until Unmount(), and all referrals to one host and port share the mount.
//
// If `url` names no security flavor, the client begins with AUTH_SYS. Where the server does not accept the flavor, the
// client asks for those that it accepts, and reaches that part of the tree by another mount of the same server, by the
// first flavor that works.
Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect,
                                                  MountOptions options);

}  // namespace penstock::client::v4
