// Reads the access control lists of an open object.
#pragma once

#include "fs/acl_octets.h"

namespace penstock::fs::posix {

// Reads a list of an open object. Returns an empty list if the object has none, or cannot have one. Not for symbolic
// links: the call would follow them.
Result<Acl> ReadAcl(int fd, const char* name);

}  // namespace penstock::fs::posix
