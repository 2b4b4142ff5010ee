// Converts access control lists between the forms of the two ends of a copy.
#pragma once

#include <cstdint>
#include <vector>

#include "client/node.h"
#include "copying/extras.h"
#include "fs/acl.h"

namespace penstock::copying {

// Lists of POSIX, as NFSACL and extended attributes have them. Those of an object without a list come from its mode.
// Fails with EINVAL if a list is malformed.
client::Result<fs::Acls> AclsOf(const client::PosixAcl& acl, uint32_t mode);
client::PosixAcl PosixAclOf(const fs::Acls& acls);

// A list of version 4 for a list of POSIX. It allows and denies the same.
std::vector<client::Ace> AcesOf(const fs::Acls& acls, bool is_directory);

struct PosixForm {
  fs::Acls acls;
  bool is_exact = true;  // otherwise they allow less
};
// The lists of POSIX for a list of version 4. `names` knows users and groups; an unknown one is an error, EINVAL.
Task<client::Result<PosixForm>> PosixFormOf(std::vector<client::Ace> aces, bool is_directory, Extras& names);

// The permission bits that allow nobody more than the lists.
uint32_t ModeWithin(const fs::Acl& acl);
// Whether two lists of POSIX say the same. `one_was_nfs`: one of them was made from a list of version 4, which does not
// tell what a mask takes away.
bool SayTheSame(const fs::Acls& one, const fs::Acls& other, bool one_was_nfs);

}  // namespace penstock::copying
