// Creates regular files in version 4, by OPEN (RFC 8881 §18.16, RFC 7530 §16.16).
#pragma once

#include <cstdint>
#include <memory>

#include "client/mount.h"
#include "client/nfs4/complete_directories.h"
#include "client/nfs4/open_file.h"

namespace penstock::client::v4 {

// See client::Mount::CreateFile(). `mount` outlives it.
//
// For an exclusive creation the method is GUARDED4 in a session whose replies survive a restart of the server,
// otherwise EXCLUSIVE4_1 or EXCLUSIVE4, as the minor version has it (RFC 8881 §18.16.3, table 18). A server that does
// not support these (NFS4ERR_NOTSUPP) gets GUARDED4: then a file that the client has created may seem to exist already,
// if the server forgets the request and the reply is lost.
Task<Result<std::shared_ptr<OpenFile>>> CreateFile(FileOwner& mount, CompleteDirectories::Creation& creation,
                                                   uint32_t mode, CreateMode how, Access access);

}  // namespace penstock::client::v4
