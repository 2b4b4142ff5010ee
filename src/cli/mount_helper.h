// The command line of a helper of mount(8): mount.penstock SOURCE DIRECTORY [-sfnvw] [-o options].
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

// Whether the program was started under the name mount.penstock.
bool IsMountHelper(const std::string& program);
// Returns the command line of `penstock` that does the same: `words` begin with the name of the program.
std::vector<std::string> WithoutMountHelper(const std::vector<std::string>& words);

}  // namespace penstock::cli
