#include "cli/bench_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A measurement of a thousand operations. The n-th one takes n times `unit`.
Measurement Ramp(Operation operation, unsigned depth, std::chrono::nanoseconds unit) {
  Measurement measurement{.operation = operation, .depth = depth};
  for (int i = 1; i <= 1000; ++i) measurement.latency.Add(i * unit);
  return measurement;
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

// The points of each line, in the order of the image: x and y, in pixels.
std::vector<std::vector<std::pair<double, double>>> Curves(const std::string& svg) {
  std::vector<std::vector<std::pair<double, double>>> all;
  const std::string begin = "points=\"";
  for (size_t at = 0; (at = svg.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    std::istringstream points(svg.substr(at, svg.find('"', at) - at));
    all.emplace_back();
    double x = 0, y = 0;
    for (char comma = 0; points >> x >> comma >> y;) all.back().emplace_back(x, y);
  }
  return all;
}

TEST(BenchPlot, HasADiagramForEachOperationAndALineForEachDepth) {
  const std::string svg = LatencyPlot({Ramp({Operation::Kind::kNull}, 1, 1us), Ramp({Operation::Kind::kNull}, 8, 4us),
                                       Ramp({Operation::Kind::kRead, 4096}, 32, 2us)});
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, EndsWith("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "<g "), 2u);
  for (const std::string_view text : {">null<", ">read4k<", ">depth 1<", ">depth 8<", ">depth 32<", ">1 ms<", ">99.9<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_EQ(Curves(svg).size(), 3u);
}

TEST(BenchPlot, ALineRisesToTheRightAndEndsWhereOneOperationIsLeft) {
  const auto curves =
      Curves(LatencyPlot({Ramp({Operation::Kind::kNull}, 1, 1us), Ramp({Operation::Kind::kNull}, 8, 4us)}));
  ASSERT_EQ(curves.size(), 2u);
  for (const auto& curve : curves) {
    ASSERT_GT(curve.size(), 20u);
    for (size_t i = 1; i < curve.size(); ++i) {
      EXPECT_GT(curve[i].first, curve[i - 1].first);
      EXPECT_LE(curve[i].second, curve[i - 1].second);  // y grows downwards
    }
  }
  EXPECT_EQ(curves[0].back().first, curves[1].back().first);
  EXPECT_GT(curves[0].back().second, curves[1].back().second) << "slower operations are further up";
}

TEST(BenchPlot, LeavesOutWhatWasNotMeasured) {
  const std::string svg = LatencyPlot({{.operation = {Operation::Kind::kOpen}, .depth = 1}});
  EXPECT_THAT(svg, Not(HasSubstr("open")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace penstock::cli
