// What went wrong with a device, and what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::rdma::verbs {

std::string DescribeErrno(int error);
// A device, or /dev/infiniband/rdma_cm.
SetupError CannotOpen(std::string_view name, int error);
// No memory may be registered: the limit on locked memory, most likely.
SetupError CannotRegister(std::string_view name, int error);
SetupError NoDevice();

}  // namespace penstock::rdma::verbs
