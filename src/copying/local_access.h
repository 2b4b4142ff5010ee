// The access rights of local files that a copy replaces.
#pragma once

#include <sys/stat.h>

namespace penstock::copying {

// Gives the open file `made` the owner, group, permissions and access control list of the file that it replaces.
// `old_fd` is an O_PATH or other descriptor of that file, and `old` its status. Without the set-user-ID and
// set-group-ID bits: a write would clear them, too. Returns errno, or 0.
int KeepAccess(int made, int old_fd, const struct stat& old);

}  // namespace penstock::copying
