// Converts access control lists between the file system and NFSACL. All versions of NFSACL have the same lists.
#pragma once

#include <cstdint>
#include <optional>

#include "fs/acl.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::acl {

inline constexpr uint32_t kAllParts = nfsacl::NA_ACL | nfsacl::NA_ACLCNT | nfsacl::NA_DFACL | nfsacl::NA_DFACLCNT;

// Returns the parts of an object's lists that the bits of `mask` (NA_ACL and so on) ask for; the mask of the result is
// the same. A list of three entries gets a fourth one, a mask with the rights of the owning group: Solaris requires a
// mask in each list, and Linux sends and removes it. Returns nullopt if the client asks about a list that is longer
// than the protocol permits, NFS_ACL_MAX_ENTRIES.
std::optional<nfsacl::secattr> ToSecurityAttributes(const fs::Acls& acls, const fs::Attributes& object, uint32_t mask);

// Returns the lists that a client sets. A list without its bit (NA_ACL, NA_DFACL) in the mask has no value. The entries
// may come in any order. In a list of four entries, a mask with the rights of the owning group is left out, since it
// changes nothing. Returns nullopt if a list is malformed. An empty default list removes the default list; an empty
// access list is malformed.
std::optional<fs::NewAcls> FromSecurityAttributes(const nfsacl::secattr& given);

}  // namespace penstock::nfs::acl
