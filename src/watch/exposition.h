// The formats of a scrape.
#pragma once

#include <string>
#include <string_view>

#include "metrics/family.h"

namespace penstock::watch {

// The media type of Prometheus' text format.
inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Returns the families in Prometheus' text format. Families without a sample are left out.
std::string ToPrometheus(const metrics::Families& families);

// Returns a JSON object with a member for each family that has samples:
//
//   {"penstock_connections": [{"labels": {"transport": "tcp"}, "value": 2}, ...],
//    "penstock_operation_seconds": [{"labels": {...}, "count": 3, "sum": 0.0001, "buckets": [0, 2, 1, ...]}, ...]}
//
// The buckets are those of metrics::kLatencyNanoseconds, and one without a bound; they are not cumulative.
std::string ToJson(const metrics::Families& families);

}  // namespace penstock::watch
