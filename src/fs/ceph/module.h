// Finds and loads the module penstock-ceph.so.
#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "fs/ceph/client.h"

namespace penstock::fs::ceph {

// Describes the types between the server and the module: the version, the headers that define these types, and the
// compiler. The server and the module have it from their builds, and it must be the same.
extern const char* const kModuleBuild;

// The module's only symbol: returns the module, which lives as long as the process, or null if `build` is not
// kModuleBuild of the module.
inline constexpr const char* kModuleSymbol = "penstock_ceph_module";
using ModuleFunction = Module* (*)(const char* build);

// Loads the module at the first call: from the folder of the running program, else from PENSTOCK_MODULES, where it is
// installed. Fails with a message for the operator; a later call tries again. Any thread.
SetupResult<Module*> LoadModule();

// Loads the module from the first of these folders that has it.
SetupResult<Module*> LoadModuleFrom(std::span<const std::filesystem::path> folders);

}  // namespace penstock::fs::ceph
