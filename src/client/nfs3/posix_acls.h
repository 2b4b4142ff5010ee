// Access control lists of POSIX beside version 3: the protocol NFSACL, over the connection of NFS.
#pragma once

#include <string_view>

#include "client/mount.h"
#include "client/nfs3/call.h"

namespace penstock::client::v3 {

// Status::kNotSupported if the server does not speak NFSACL.
Task<Result<PosixAcl>> GetPosixAcl(const Caller& caller, const Handle& object, std::string_view what);
Task<Result<void>> SetPosixAcl(const Caller& caller, const Handle& object, std::string_view what, const PosixAcl& acl);

}  // namespace penstock::client::v3
