#include "cli/bench_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>

namespace penstock::cli {
namespace {

struct KindName {
  std::string_view name;
  Operation::Kind kind;
};
constexpr KindName kKinds[] = {
    {"null", Operation::Kind::kNull},
    {"getattr", Operation::Kind::kGetAttributes},
    {"setattr", Operation::Kind::kSetAttributes},
    {"mkdir", Operation::Kind::kMakeDirectory},
    {"read", Operation::Kind::kRead},
    {"write", Operation::Kind::kWrite},
};

bool HasSize(Operation::Kind kind) { return kind == Operation::Kind::kRead || kind == Operation::Kind::kWrite; }

// Parses "4k" or "1m". Returns nothing if the size is malformed, zero or too large.
std::optional<uint32_t> SizeOf(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const uint32_t unit = text.back() == 'k' ? 1 << 10 : text.back() == 'm' ? 1 << 20 : 0;
  text.remove_suffix(1);
  uint32_t count = 0;
  const auto [rest, error] = std::from_chars(text.begin(), text.end(), count);
  if (unit == 0 || error != std::errc() || rest != text.end() || count == 0 || count > kLargestOperation / unit) {
    return std::nullopt;
  }
  return count * unit;
}

double Microseconds(LatencyHistogram::Nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

std::string NameOf(Operation operation) {
  const std::string_view kind = std::ranges::find(kKinds, operation.kind, &KindName::kind)->name;
  if (!HasSize(operation.kind)) return std::string(kind);
  if (operation.size % (1 << 20) == 0) return fmt::format("{}{}m", kind, operation.size >> 20);
  return fmt::format("{}{}k", kind, operation.size >> 10);
}

std::optional<Operation> OperationOf(std::string_view name) {
  for (const KindName& each : kKinds) {
    if (!name.starts_with(each.name)) continue;
    const std::string_view rest = name.substr(each.name.size());
    if (!HasSize(each.kind)) return rest.empty() ? std::optional(Operation{each.kind}) : std::nullopt;
    const auto size = SizeOf(rest);
    return size ? std::optional(Operation{each.kind, *size}) : std::nullopt;
  }
  return std::nullopt;
}

std::string Table(const std::vector<Measurement>& measurements) {
  std::string text =
      fmt::format("{:>9} {:>5} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "", "depth", "per s",
                  "MiB/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "client us", "server us");
  for (const Measurement& m : measurements) {
    const auto at = [&m](double quantile) { return Microseconds(m.latency.Percentile(quantile)); };
    text +=
        fmt::format("{:>9} {:>5} {:>10.0f} {:>9.0f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.2f} {:>10}\n",
                    NameOf(m.operation), m.depth, m.per_second(), m.mib_per_second(), at(0.5), at(0.9), at(0.99),
                    at(0.999), Microseconds(m.latency.largest()), m.client_cpu_us,
                    m.server_cpu_us ? fmt::format("{:.2f}", *m.server_cpu_us) : "-");
  }
  return text;
}

std::string JsonReport(const std::vector<Measurement>& measurements, std::string_view transport, bool crc,
                       uint64_t file_size) {
  std::string text = fmt::format("{{\"transport\": \"{}\", \"crc\": {}, \"file_size\": {}, \"measurements\": [",
                                 transport, crc, file_size);
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
