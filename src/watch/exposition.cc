#include "watch/exposition.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <limits>
#include <sstream>

#include "base/json.h"

namespace penstock::watch {
namespace {

using metrics::Family;
using metrics::LatencyCounts;

prometheus::MetricType TypeOf(Family::Type type) {
  switch (type) {
    case Family::Type::kCounter:
      return prometheus::MetricType::Counter;
    case Family::Type::kGauge:
      return prometheus::MetricType::Gauge;
    case Family::Type::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

double Seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

prometheus::ClientMetric Convert(const metrics::Sample& sample, Family::Type type) {
  prometheus::ClientMetric converted;
  for (const auto& [name, value] : sample.labels) converted.label.push_back({name, value});
  if (const auto* const latency = std::get_if<LatencyCounts>(&sample.value)) {
    uint64_t below = 0;
    for (size_t i = 0; i < latency->buckets.size(); ++i) {
      below += latency->buckets[i];
      const bool bounded = i < metrics::kLatencyBounds;
      const double bound = bounded ? static_cast<double>(metrics::kLatencyNanoseconds[i]) / 1e9
                                   : std::numeric_limits<double>::infinity();
      converted.histogram.bucket.push_back({below, bound});
    }
    converted.histogram.sample_count = below;
    converted.histogram.sample_sum = Seconds(latency->nanoseconds);
    return converted;
  }
  const double value = std::get<double>(sample.value);
  (type == Family::Type::kCounter ? converted.counter.value : converted.gauge.value) = value;
  return converted;
}

}  // namespace

std::string ToPrometheus(const metrics::Families& families) {
  std::vector<prometheus::MetricFamily> converted;
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    prometheus::MetricFamily& to = converted.emplace_back();
    to.name = family.name;
    to.help = family.help;
    to.type = TypeOf(family.type);
    for (const metrics::Sample& sample : family.samples) to.metric.push_back(Convert(sample, family.type));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, converted);
  return std::move(text).str();
}

std::string ToJson(const metrics::Families& families) {
  std::string json = "{";
  const auto out = std::back_inserter(json);
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    fmt::format_to(out, "{}\n{}: [", json.size() > 1 ? "," : "", QuoteJson(family.name));
    bool first = true;
    for (const metrics::Sample& sample : family.samples) {
      json += first ? "{\"labels\": {" : ",\n {\"labels\": {";
      first = false;
      for (size_t i = 0; i < sample.labels.size(); ++i) {
        const auto& [name, value] = sample.labels[i];
        fmt::format_to(out, "{}{}: {}", i > 0 ? ", " : "", QuoteJson(name), QuoteJson(value));
      }
      if (const auto* const latency = std::get_if<LatencyCounts>(&sample.value)) {
        fmt::format_to(out, "}}, \"count\": {}, \"sum\": {}, \"buckets\": [{}]}}", latency->count(),
                       Seconds(latency->nanoseconds), fmt::join(latency->buckets, ", "));
      } else {
        fmt::format_to(out, "}}, \"value\": {}}}", std::get<double>(sample.value));
      }
    }
    json += "]";
  }
  return json + "\n}";
}

}  // namespace penstock::watch
