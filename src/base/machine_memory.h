// How much memory there is for this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace penstock {

// Octets: what the machine has, or what the control group of the process may use where that is less. `root` is where the files
// of the system begin.
uint64_t MachineMemory(const std::filesystem::path& root = "/");

}  // namespace penstock
