// The messages for a user whose RDMA device cannot be used: what failed and how to repair it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::rdma::verbs {

// `file` in /dev/infiniband cannot be opened. `device`: the device that it belongs to, or empty.
SetupError CannotOpen(std::string_view file, std::string_view device, int error);
// librdmacm's event channel cannot be made.
SetupError NoConnectionManager(int error);
// The device is open, but an operation on it fails.
SetupError CannotUse(std::string_view device, int error);
// Memory cannot be registered. The most likely cause is the limit on locked memory.
SetupError CannotRegister(std::string_view device, int error);
// The system has no RDMA device, or none with that name.
SetupError NoDevice(std::string_view name = {});

}  // namespace penstock::rdma::verbs
