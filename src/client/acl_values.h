// Access control lists as Linux shows them in extended attributes: system.nfs4_acl (XDR, as the kernel's NFS client has
// it), and system.posix_acl_access and system.posix_acl_default (linux/posix_acl_xattr.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "client/node.h"

namespace penstock::client {

// The names of attributes on Linux. The first one begins those of users.
inline constexpr std::string_view kUserPrefix = "user.";
inline constexpr std::string_view kNfs4Acl = "system.nfs4_acl";
inline constexpr std::string_view kAccessAcl = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

std::vector<std::byte> EncodeNfs4Acl(const std::vector<Ace>& acl);
// Returns nothing if the value is malformed.
std::optional<std::vector<Ace>> DecodeNfs4Acl(ConstBytes value);

std::vector<std::byte> EncodePosixAcl(const std::vector<PosixAce>& entries);
std::optional<std::vector<PosixAce>> DecodePosixAcl(ConstBytes value);
// Whether the list has entries of named users or groups, and thus says more than a mode.
bool HasNamedEntries(const std::vector<PosixAce>& entries);

}  // namespace penstock::client
