// Reads all counters of a server.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "metrics/counts.h"
#include "metrics/family.h"

namespace penstock::metrics {

// The paths of the exports by their ids.
using ExportPaths = std::map<uint32_t, std::string>;

// Adds the families of the counters. All these exports are listed, also those without an operation so far. Any thread.
void Collect(const Counts& counts, const ExportPaths& paths, Families& to);

// Adds the usual metrics of the process (process_*): CPU, memory, descriptors, threads. Reads /proc. Any thread.
void CollectProcess(Families& to);

}  // namespace penstock::metrics
