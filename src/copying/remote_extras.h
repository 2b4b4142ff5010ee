// The extras of an object on a server: the lists of NFSACL beside version 3, those of version 4, and the extended
// attributes of version 4.2.
#pragma once

#include <memory>

#include "copying/extras.h"
#include "copying/remote_tree.h"

namespace penstock::copying {

// `node` is no symbolic link. The tree outlives the result.
std::unique_ptr<Extras> RemoteExtrasOf(RemoteTree& tree, const client::Node& node);

}  // namespace penstock::copying
