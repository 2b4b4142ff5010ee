// The measurements of `penstock bench`, and two reports of them: a table for people and JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/latency_histogram.h"

namespace penstock::cli {

// The work that a measurement repeats.
struct Operation {
  enum class Kind : uint8_t {
    kNull,
    kGetAttributes,
    kSetAttributes,  // sets the mode of a file
    kMakeDirectory,  // makes a directory and removes it
    kRead,
    kWrite,
  };
  Kind kind = Kind::kNull;
  uint32_t size = 0;  // the octets of one READ or WRITE; 0 for the other kinds
  bool operator==(const Operation&) const = default;
};

// The largest READ or WRITE. Reads and writes of this size go through the file from its beginning.
inline constexpr uint32_t kLargestOperation = 1 << 20;

// The name of an operation in --ops and in both reports: null, getattr, setattr, mkdir, or read or write with a size
// from 1k to 1m, for example write64k.
std::string NameOf(Operation operation);
std::optional<Operation> OperationOf(std::string_view name);

// The results of one operation at one depth.
struct Measurement {
  Operation operation;
  unsigned depth;
  double seconds = 0;
  uint64_t octets = 0;
  uint64_t executed = 0;  // all operations, also those before the measurement began
  LatencyHistogram latency{};
  double client_cpu_us = 0;  // per operation
  std::optional<double> server_cpu_us{};

  double per_second() const { return static_cast<double>(latency.count()) / seconds; }
  double mib_per_second() const { return static_cast<double>(octets) / seconds / (1 << 20); }
};

std::string Table(const std::vector<Measurement>& measurements);

// Numbers have six significant digits, so that a low rate is not rounded to 0.
std::string JsonReport(const std::vector<Measurement>& measurements, std::string_view transport, bool crc,
                       uint64_t file_size);

}  // namespace penstock::cli
