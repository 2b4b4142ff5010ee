// The extras of an object on this machine, by the system calls for extended attributes.
#pragma once

#include <memory>
#include <string>

#include "copying/extras.h"
#include "copying/local_tree.h"

namespace penstock::copying {

// Blocks. Opens an entry of a directory, and no symbolic link; an empty name: the directory itself.
Result<std::unique_ptr<Extras>> OpenLocalExtras(LocalTree& tree, std::shared_ptr<const HeldDirectory> directory,
                                                const std::string& name);

}  // namespace penstock::copying
