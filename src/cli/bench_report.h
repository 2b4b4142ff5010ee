// The measurements of `penstock bench`, and two reports of them: a table for people and JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/latency_histogram.h"

namespace penstock::cli {

enum class Operation : uint8_t { kNull, kGetAttributes, kReadLarge, kWriteLarge, kReadSmall, kWriteSmall };

// The name of an operation in --ops and in both reports.
std::string_view NameOf(Operation operation);
std::optional<Operation> OperationOf(std::string_view name);

// The results of one operation at one depth.
struct Measurement {
  Operation operation;
  unsigned depth;
  double seconds = 0;
  uint64_t octets = 0;
  LatencyHistogram latency{};
  double client_cpu_us = 0;  // per operation
  std::optional<double> server_cpu_us{};

  double per_second() const { return static_cast<double>(latency.count()) / seconds; }
  double mib_per_second() const { return static_cast<double>(octets) / seconds / (1 << 20); }
};

std::string Table(const std::vector<Measurement>& measurements);

// Numbers have six significant digits, so that a low rate is not rounded to 0.
std::string Json(const std::vector<Measurement>& measurements, std::string_view transport, bool crc,
                 uint64_t file_size);

}  // namespace penstock::cli
