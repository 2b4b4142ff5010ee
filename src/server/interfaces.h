// The names of all operations and statuses, for the counters.
#pragma once

#include <vector>

#include "metrics/interface.h"

namespace penstock::server {

// Describes every version of every program that a server may offer. NFS version 4 has an interface for each minor
// version, with COMPOUND and the operations, and one for calls without a minor version that the server knows.
std::vector<metrics::Interface> MeasuredInterfaces();

}  // namespace penstock::server
