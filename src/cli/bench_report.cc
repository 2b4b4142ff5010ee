#include "cli/bench_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace penstock::cli {
namespace {

struct OperationName {
  std::string_view name;
  Operation operation;
};
constexpr OperationName kOperations[] = {
    {"null", Operation::kNull},          {"getattr", Operation::kGetAttributes}, {"read1m", Operation::kReadLarge},
    {"write1m", Operation::kWriteLarge}, {"read4k", Operation::kReadSmall},      {"write4k", Operation::kWriteSmall},
};

double Microseconds(LatencyHistogram::Nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

std::string_view NameOf(Operation operation) {
  return std::ranges::find(kOperations, operation, &OperationName::operation)->name;
}

std::optional<Operation> OperationOf(std::string_view name) {
  const auto* const found = std::ranges::find(kOperations, name, &OperationName::name);
  if (found == std::end(kOperations)) return std::nullopt;
  return found->operation;
}

std::string Table(const std::vector<Measurement>& measurements) {
  std::string text =
      fmt::format("{:>8} {:>5} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "", "depth", "per s",
                  "MiB/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "client us", "server us");
  for (const Measurement& m : measurements) {
    const auto at = [&m](double quantile) { return Microseconds(m.latency.Percentile(quantile)); };
    text +=
        fmt::format("{:>8} {:>5} {:>10.0f} {:>9.0f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.2f} {:>10}\n",
                    NameOf(m.operation), m.depth, m.per_second(), m.mib_per_second(), at(0.5), at(0.9), at(0.99),
                    at(0.999), Microseconds(m.latency.largest()), m.client_cpu_us,
                    m.server_cpu_us ? fmt::format("{:.2f}", *m.server_cpu_us) : "-");
  }
  return text;
}

std::string Json(const std::vector<Measurement>& measurements, std::string_view transport, bool crc,
                 uint64_t file_size) {
  std::string text = fmt::format("{{\"transport\": \"{}\", \"crc\": {}, \"file_size\": {}, \"measurements\": [",
                                 transport, crc, file_size);
  const char* separator = "";
  for (const Measurement& m : measurements) {
    const auto at = [&m](double quantile) { return Microseconds(m.latency.Percentile(quantile)); };
    text += fmt::format(
        "{}\n  {{\"operation\": \"{}\", \"depth\": {}, \"seconds\": {:.6g}, \"count\": {}, \"per_second\": {:.6g}, "
        "\"mib_per_second\": {:.6g}, \"latency_us\": {{\"p50\": {:.6g}, \"p90\": {:.6g}, \"p99\": {:.6g}, \"p99.9\": "
        "{:.6g}, \"max\": {:.6g}}}, \"client_cpu_us\": {:.6g}, \"server_cpu_us\": {}}}",
        separator, NameOf(m.operation), m.depth, m.seconds, m.latency.count(), m.per_second(), m.mib_per_second(),
        at(0.5), at(0.9), at(0.99), at(0.999), Microseconds(m.latency.largest()), m.client_cpu_us,
        m.server_cpu_us ? fmt::format("{:.6g}", *m.server_cpu_us) : "null");
    separator = ",";
  }
  return text + "\n]}\n";
}

}  // namespace penstock::cli
