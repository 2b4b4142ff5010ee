// The mount points of this process's mount namespace.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace penstock::fs::posix {

// Returns the mount points below a directory, the outer ones first, without file systems that hold no files of users
// (proc, sysfs, ...). The path has no symbolic links in it. Blocks shortly: /proc/self/mountinfo is read.
SetupResult<std::vector<std::filesystem::path>> MountsBelow(const std::filesystem::path& directory);

// Whether a file system, or a part of one, is mounted there. False if there is no such directory.
bool IsMountPoint(const std::filesystem::path& directory);

}  // namespace penstock::fs::posix
