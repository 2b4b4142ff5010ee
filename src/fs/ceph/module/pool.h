// The implementation of objects::Store: the objects of a cluster of servers in a pool of RADOS.
#pragma once

#include <chrono>
#include <memory>

#include "base/result.h"
#include "fs/ceph/location.h"
#include "objects/store.h"

namespace penstock::fs::ceph {

SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation& location, std::chrono::seconds patience);

}  // namespace penstock::fs::ceph
