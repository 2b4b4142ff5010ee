// An access control list as the kernel gives and takes it: the value of the extended attributes system.posix_acl_access
// and system.posix_acl_default.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "fs/acl.h"

namespace penstock::fs::posix {

inline constexpr const char* kAccessAcl = "system.posix_acl_access";
inline constexpr const char* kDefaultAcl = "system.posix_acl_default";

// Little-endian:
//
//   0       4      6      8          12
//   +-------+------+------+----------+------+------+----------+--
//   |version| tag  |rights|    id    | tag  |rights|    id    | ...
//   +-------+------+------+----------+------+------+----------+--
std::vector<std::byte> OctetsOfAcl(const Acl& acl);
// kServerFault for what the kernel would never give.
Result<Acl> AclOfOctets(ConstBytes octets);

}  // namespace penstock::fs::posix
