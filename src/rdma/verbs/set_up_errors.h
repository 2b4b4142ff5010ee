// What went wrong with a device, and what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::rdma::verbs {

// A file in /dev/infiniband, of a device where it has a name.
SetupError CannotOpen(std::string_view file, std::string_view device, int error);
// Of librdmacm's channels.
SetupError NoConnectionManager(int error);
// What is open does not do as it should.
SetupError CannotUse(std::string_view device, int error);
// No memory may be registered: the limit on locked memory, most likely.
SetupError CannotRegister(std::string_view device, int error);
// None at all, or none of that name.
SetupError NoDevice(std::string_view name = {});

}  // namespace penstock::rdma::verbs
