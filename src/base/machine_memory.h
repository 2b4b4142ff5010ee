// The memory that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace penstock {

// Returns the memory of the machine, or the limit of the process's control group if that is less, in octets. `root` is
// the root of the file system that has /proc and /sys; tests use another.
uint64_t MachineMemory(const std::filesystem::path& root = "/");

}  // namespace penstock
