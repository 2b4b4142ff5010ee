// Metrics as values, as a scrape gets them: families of samples with labels. Independent of any format.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "metrics/latency.h"

namespace penstock::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;
  std::variant<double, LatencyCounts> value;
};

struct Family {
  enum class Type : uint8_t { kCounter, kGauge, kHistogram };
  std::string name;  // in Prometheus' style: of a counter with _total, with the unit in base units
  std::string help;
  Type type = Type::kCounter;
  std::vector<Sample> samples{};

  void Add(Labels labels, double value) { samples.push_back({std::move(labels), value}); }
  void Add(double value) { Add({}, value); }
  void Add(Labels labels, const LatencyCounts& value) { samples.push_back({std::move(labels), value}); }
};

using Families = std::vector<Family>;

// Adds a family, and returns it until the next one is added.
inline Family& AddFamily(Families& to, std::string_view name, Family::Type type, std::string_view help) {
  return to.emplace_back(Family{std::string(name), std::string(help), type});
}

// Adds a gauge without labels. If its value could not be read, it has no sample.
inline void AddGauge(Families& to, std::string_view name, std::string_view help, std::optional<double> value) {
  Family& family = AddFamily(to, name, Family::Type::kGauge, help);
  if (value) family.Add(*value);
}

// Adds a family whose samples have one label.
struct Labelled {
  std::string_view label;
  double value;
};
inline void AddFamily(Families& to, std::string_view name, Family::Type type, std::string_view help,
                      std::string_view label, std::initializer_list<Labelled> samples) {
  Family& family = AddFamily(to, name, type, help);
  for (const Labelled& each : samples) family.Add({{std::string(label), std::string(each.label)}}, each.value);
}

}  // namespace penstock::metrics
