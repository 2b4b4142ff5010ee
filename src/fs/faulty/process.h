// Faults that an operator asks for, on the file systems of a running server.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace penstock::fs::faulty {

// Returns a faulty file system over `files` with the faults of `text` (see fault.h). Returns `files` itself if the text
// is empty. Faults at random are the same in each run of the process. A fault that kills sends SIGKILL to the process.
SetupResult<std::shared_ptr<fs::FileSystem>> WithFaults(std::shared_ptr<fs::FileSystem> files, std::string_view text);

}  // namespace penstock::fs::faulty
