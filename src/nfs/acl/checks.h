// The parts of GETACL and SETACL that all versions share: the checks of the arguments, and the errors.
#pragma once

#include <cstdint>

#include "fs/types.h"
#include "nfs/target.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::acl {

// Returns the lists for the reply to GETACL. `acls` is what FileSystem::GetAcls() returned. Fails with its error, with
// kInvalid for unknown bits in `mask`, with kNotSupported if the file system keeps no lists, and with kServerFault if a
// list is longer than the protocol permits.
fs::Result<nfsacl::secattr> ListsOf(const nfs::Target& target, const fs::Observed<fs::Acls>& acls, uint32_t mask);

// Returns the lists that SETACL sets. Fails with kReadOnly in a read-only export, with kInvalid if a list is malformed
// or the mask has unknown bits, and with kNotSupported if the file system keeps no lists.
fs::Result<fs::NewAcls> ListsToSet(const nfs::Target& target, const nfsacl::secattr& given);

// Returns the error of SETACL for an error of FileSystem::SetAcls().
fs::Error ErrorOfSet(fs::Error error);

}  // namespace penstock::nfs::acl
