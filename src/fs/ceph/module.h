// Finds and loads the module penstock-ceph.so.
#pragma once

#include "base/result.h"
#include "fs/ceph/client.h"

namespace penstock::fs::ceph {

// The module's only symbol: returns the module, which lives as long as the process, or null if `build` is not
// kModuleBuild of the module. The types between them are those of one build.
inline constexpr const char* kModuleSymbol = "penstock_ceph_module";
using ModuleFunction = Module* (*)(const char* build);

// Loads the module at the first call: from the folder of the running program, else from PENSTOCK_MODULES, where the
// package penstock-ceph installs it. Fails with a message for the operator. Any thread.
SetupResult<Module*> LoadModule();

}  // namespace penstock::fs::ceph
