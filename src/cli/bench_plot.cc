#include "cli/bench_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <string_view>

namespace penstock::cli {
namespace {

// In pixels.
constexpr double kWidth = 360, kHeight = 220;                       // of the area of one diagram
constexpr double kLeft = 64, kTop = 34, kRight = 96, kBottom = 44;  // around it
constexpr size_t kColumns = 2;

// The shares of the operations that took longer: 1 at the left, and ever fewer to the right.
constexpr double kShares[] = {1, 0.5, 0.1, 0.01, 0.001, 0.0001};
constexpr std::string_view kPercentiles[] = {"min", "50", "90", "99", "99.9", "99.99"};
constexpr double kLeastShare = 0.0001;

constexpr std::string_view kColors[] = {"#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#5c5c5c"};

double X(double share) { return kLeft + kWidth * std::log10(share) / std::log10(kLeastShare); }

// The axis of the times, which begins and ends at a power of ten.
class TimeAxis {
 public:
  TimeAxis(double least, double most)
      : first_(std::floor(std::log10(least))), last_(std::max(std::ceil(std::log10(most)), first_ + 1)) {}

  double Y(double us) const {
    const double part = (std::log10(us) - first_) / (last_ - first_);
    return kTop + kHeight * (1 - std::clamp(part, 0.0, 1.0));
  }
  // The powers of ten.
  std::vector<double> marks() const {
    std::vector<double> all;
    for (double each = first_; each <= last_; ++each) all.push_back(std::pow(10, each));
    return all;
  }

 private:
  double first_, last_;
};

double MicrosecondsAt(const Measurement& measurement, double share) {
  const std::chrono::duration<double, std::micro> time = measurement.latency.Percentile(1 - share);
  return std::max(time.count(), 0.001);
}

std::string NameOfTime(double us) {
  if (us < 1) return fmt::format("{:g} ns", us * 1e3);
  if (us < 1e3) return fmt::format("{:g} us", us);
  return us < 1e6 ? fmt::format("{:g} ms", us / 1e3) : fmt::format("{:g} s", us / 1e6);
}

std::string Text(double x, double y, std::string_view anchor, std::string_view text, std::string_view color = "#222") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, color,
                     text);
}
std::string Line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                     y2);
}

// One line from the fastest operation to the share that one operation is, and its name at the right.
std::string Curve(const Measurement& measurement, const TimeAxis& axis, size_t number) {
  constexpr int kPointsOfADecade = 10;
  const double least = std::max(kLeastShare, 1 / static_cast<double>(measurement.latency.count()));
  std::string points;
  const auto add = [&](double share) {
    points += fmt::format("{:.1f},{:.1f} ", X(share), axis.Y(MicrosecondsAt(measurement, share)));
  };
  add(1);
  for (int i = 1; std::pow(10, -static_cast<double>(i) / kPointsOfADecade) > least; ++i) {
    add(std::pow(10, -static_cast<double>(i) / kPointsOfADecade));
  }
  add(least);
  const std::string_view color = kColors[number % std::size(kColors)];
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", points, color) +
         Text(kLeft + kWidth + 8, kTop + 12 + 16 * static_cast<double>(number), "start",
              fmt::format("depth {}", measurement.depth), color);
}

std::string Diagram(std::string_view name, const std::vector<const Measurement*>& measurements) {
  double least = 1e12, most = 0.001;
  for (const Measurement* each : measurements) {
    least = std::min(least, MicrosecondsAt(*each, 1));
    most = std::max(most, MicrosecondsAt(*each, kLeastShare));
  }
  const TimeAxis axis(least, most);
  std::string text = Text(kLeft, kTop - 14, "start", name);
  for (const double mark : axis.marks()) {
    text += Line(kLeft, axis.Y(mark), kLeft + kWidth, axis.Y(mark));
    text += Text(kLeft - 6, axis.Y(mark) + 4, "end", NameOfTime(mark));
  }
  for (size_t i = 0; i < std::size(kShares); ++i) {
    text += Line(X(kShares[i]), kTop, X(kShares[i]), kTop + kHeight);
    text += Text(X(kShares[i]), kTop + kHeight + 16, "middle", kPercentiles[i]);
  }
  text += Text(kLeft + kWidth / 2, kTop + kHeight + 34, "middle", "percentile of the latency");
  size_t number = 0;
  for (const Measurement* each : measurements) text += Curve(*each, axis, number++);
  return text;
}

}  // namespace

std::string LatencyPlot(const std::vector<Measurement>& measurements) {
  // In the order of the measurements.
  std::vector<std::pair<std::string, std::vector<const Measurement*>>> operations;
  for (const Measurement& each : measurements) {
    if (each.latency.count() == 0) continue;
    const std::string name = NameOf(each.operation);
    auto at = std::ranges::find(operations, name, [](const auto& known) { return known.first; });
    if (at == operations.end()) at = operations.insert(at, {name, {}});
    at->second.push_back(&each);
  }
  constexpr double kFullWidth = kLeft + kWidth + kRight, kFullHeight = kTop + kHeight + kBottom;
  const size_t columns = std::clamp<size_t>(operations.size(), 1, kColumns);
  const size_t rows = (operations.size() + columns - 1) / columns;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kFullWidth * static_cast<double>(columns), kFullHeight * static_cast<double>(rows));
  for (size_t i = 0; i < operations.size(); ++i) {
    text +=
        fmt::format("<g transform=\"translate({},{})\">\n{}</g>\n", kFullWidth * static_cast<double>(i % columns),
                    kFullHeight * static_cast<double>(i / columns), Diagram(operations[i].first, operations[i].second));
  }
  return text + "</svg>\n";
}

}  // namespace penstock::cli
