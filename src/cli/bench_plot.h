// A plot of the latencies that `penstock bench` has measured.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_report.h"

namespace penstock::cli {

// Returns an SVG image with one diagram for each operation, and one line for each depth in it: which share of the
// operations took longer than a time. Both axes are logarithmic.
std::string LatencyPlot(const std::vector<Measurement>& measurements);

}  // namespace penstock::cli
