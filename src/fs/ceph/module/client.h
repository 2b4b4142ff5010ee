// The implementation of fs::ceph::Client: one mount of libcephfs.
#pragma once

#include <chrono>
#include <memory>

#include "fs/ceph/client.h"

namespace penstock::fs::ceph {

// See Module::Mount().
SetupResult<std::unique_ptr<Client>> MountClient(const Location& location, std::chrono::seconds patience,
                                                 const std::string& name = "");

}  // namespace penstock::fs::ceph
