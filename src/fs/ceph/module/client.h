// The implementation of fs::ceph::Client: one mount of libcephfs.
#pragma once

#include <chrono>
#include <memory>

#include "fs/ceph/client.h"

namespace penstock::fs::ceph {

SetupResult<std::unique_ptr<Client>> MountClient(const Location& location, std::chrono::seconds patience);

}  // namespace penstock::fs::ceph
