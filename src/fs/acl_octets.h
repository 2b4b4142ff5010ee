// Converts an access control list from and to the octets that the kernel uses: the value of the extended attributes
// system.posix_acl_access and system.posix_acl_default.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "fs/acl.h"

namespace penstock::fs {

inline constexpr const char* kAccessAcl = "system.posix_acl_access";
inline constexpr const char* kDefaultAcl = "system.posix_acl_default";

// The octets, all numbers in little-endian order:
//
//   0       4      6      8          12
//   +-------+------+------+----------+------+------+----------+--
//   |version| tag  |rights|    id    | tag  |rights|    id    | ...
//   +-------+------+------+----------+------+------+----------+--
std::vector<std::byte> OctetsOfAcl(const Acl& acl);
// Fails with kServerFault for octets that the kernel never returns.
Result<Acl> AclOfOctets(ConstBytes octets);
}  // namespace penstock::fs
