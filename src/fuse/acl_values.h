// Access control lists as Linux shows them in extended attributes: system.nfs4_acl (XDR, as the kernel's NFS client has
// it), and system.posix_acl_access and system.posix_acl_default (linux/posix_acl_xattr.h).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "client/node.h"

namespace penstock::fuse {

std::vector<std::byte> EncodeNfs4Acl(const std::vector<client::Ace>& acl);
// Returns nothing if the value is malformed.
std::optional<std::vector<client::Ace>> DecodeNfs4Acl(ConstBytes value);

std::vector<std::byte> EncodePosixAcl(const std::vector<client::PosixAce>& entries);
std::optional<std::vector<client::PosixAce>> DecodePosixAcl(ConstBytes value);
// Whether the list has entries of named users or groups, and thus says more than a mode.
bool HasNamedEntries(const std::vector<client::PosixAce>& entries);

}  // namespace penstock::fuse
