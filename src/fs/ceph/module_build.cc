#include "fs/ceph/module.h"

namespace penstock::fs::ceph {

const char* const kModuleBuild = PENSTOCK_MODULE_BUILD;

}  // namespace penstock::fs::ceph
