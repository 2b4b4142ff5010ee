#include "cli/bench_report.h"

#include <fmt/core.h>

#include <chrono>

namespace penstock::cli {
namespace {

double Microseconds(LatencyHistogram::Nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

std::string TableOf(const std::vector<Measurement>& measurements) {
  std::string text =
      fmt::format("{:>12} {:>5} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "", "depth", "per s",
                  "MiB/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "client us", "server us");
  for (const Measurement& m : measurements) {
    const auto at = [&m](double quantile) { return Microseconds(m.latency.Percentile(quantile)); };
    text +=
        fmt::format("{:>12} {:>5} {:>10.0f} {:>9.0f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.2f} {:>10}\n",
                    NameOf(m.operation), m.depth, m.per_second(), m.mib_per_second(), at(0.5), at(0.9), at(0.99),
                    at(0.999), Microseconds(m.latency.largest()), m.client_cpu_us,
                    m.server_cpu_us ? fmt::format("{:.2f}", *m.server_cpu_us) : "-");
  }
  return text;
}

std::string JsonReport(const std::vector<Measurement>& measurements, const Circumstances& in) {
  std::string text = fmt::format(
      "{{\"version\": \"{}\", \"transport\": \"{}\", \"crc\": {}, \"connections\": {}, \"file_size\": {}, "
      "\"measurements\": [",
      in.version, in.transport, in.crc, in.connections, in.file_size);
  const char* separator = "";
  for (const Measurement& m : measurements) {
    const auto at = [&m](double quantile) { return Microseconds(m.latency.Percentile(quantile)); };
    text += fmt::format(
        "{}\n  {{\"operation\": \"{}\", \"depth\": {}, \"seconds\": {:.6g}, \"count\": {}, \"executed\": {}, "
        "\"per_second\": {:.6g}, "
        "\"mib_per_second\": {:.6g}, \"latency_us\": {{\"p50\": {:.6g}, \"p90\": {:.6g}, \"p99\": {:.6g}, \"p99.9\": "
        "{:.6g}, \"max\": {:.6g}}}, \"client_cpu_us\": {:.6g}, \"server_cpu_us\": {}}}",
        separator, NameOf(m.operation), m.depth, m.seconds, m.latency.count(), m.executed, m.per_second(),
        m.mib_per_second(), at(0.5), at(0.9), at(0.99), at(0.999), Microseconds(m.latency.largest()), m.client_cpu_us,
        m.server_cpu_us ? fmt::format("{:.6g}", *m.server_cpu_us) : "null");
    separator = ",";
  }
  return text + "\n]}\n";
}

}  // namespace penstock::cli
