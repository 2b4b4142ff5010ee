// The measurements of `penstock bench`, and two reports of them: a table for people and JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_operation.h"
#include "cli/latency_histogram.h"

namespace penstock::cli {

// The results of one operation at one depth.
struct Measurement {
  Operation operation;
  unsigned depth;  // operations under way on each connection
  double seconds = 0;
  uint64_t octets = 0;
  uint64_t executed = 0;  // all operations, also those before the measurement began
  LatencyHistogram latency{};
  double client_cpu_us = 0;  // per operation
  std::optional<double> server_cpu_us{};

  double per_second() const { return static_cast<double>(latency.count()) / seconds; }
  double mib_per_second() const { return static_cast<double>(octets) / seconds / (1 << 20); }
};

std::string TableOf(const std::vector<Measurement>& measurements);

// The circumstances of all measurements of a report.
struct Circumstances {
  std::string_view version{};    // as `vers=` of a URL names it
  std::string_view transport{};  // rdma or tcp
  bool crc = false;
  unsigned connections = 1;
  uint64_t file_size = 0;
};
// Numbers have six significant digits, so that a low rate is not rounded to 0.
std::string JsonReport(const std::vector<Measurement>& measurements, const Circumstances& circumstances);

}  // namespace penstock::cli
