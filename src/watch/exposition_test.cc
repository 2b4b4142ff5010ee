#include "watch/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::watch {
namespace {

using metrics::Families;
using metrics::Family;
using metrics::LatencyCounts;
using testing::HasSubstr;
using testing::Not;

Families Some() {
  Families families;
  AddFamily(families, "penstock_things_total", Family::Type::kCounter, "Things").Add({{"kind", "a\"b\\c\n"}}, 3);
  AddFamily(families, "penstock_level", Family::Type::kGauge, "Level").Add(0.5);
  LatencyCounts latency;
  latency.buckets[0] = 1;
  latency.buckets[2] = 2;
  latency.buckets[metrics::kLatencyBounds] = 1;
  latency.nanoseconds = 12'000'000'000;
  AddFamily(families, "penstock_wait_seconds", Family::Type::kHistogram, "Waits").Add({{"of", "x"}}, latency);
  AddFamily(families, "penstock_nothing", Family::Type::kGauge, "Nothing");
  return families;
}

TEST(ExpositionTest, WritesThePrometheusFormat) {
  const std::string text = ToPrometheus(Some());
  EXPECT_THAT(text, HasSubstr("# HELP penstock_things_total Things\n# TYPE penstock_things_total counter\n"
                              "penstock_things_total{kind=\"a\\\"b\\\\c\\n\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("penstock_level 0.5\n"));
  EXPECT_THAT(text, HasSubstr("penstock_wait_seconds_count{of=\"x\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("penstock_wait_seconds_sum{of=\"x\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("le=\"+Inf\"} 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("penstock_nothing")));
}

TEST(ExpositionTest, BucketsOfPrometheusAreCumulative) {
  const std::string text = ToPrometheus(Some());
  EXPECT_THAT(text, HasSubstr("penstock_wait_seconds_bucket{of=\"x\",le=\"2"));
  EXPECT_THAT(text, HasSubstr("penstock_wait_seconds_bucket{of=\"x\",le=\"10\"} 3\n"));
}

TEST(ExpositionTest, WritesJson) {
  const std::string json = ToJson(Some());
  EXPECT_THAT(json, HasSubstr(R"("penstock_things_total": [{"labels": {"kind": "a\"b\\c\n"}, "value": 3}])"));
  EXPECT_THAT(json, HasSubstr(R"("count": 4, "sum": 12, "buckets": [1, 0, 2, 0)"));
  EXPECT_THAT(json, Not(HasSubstr("penstock_nothing")));
}

TEST(ExpositionTest, WritesAnEmptyObject) { EXPECT_EQ(ToJson({}), "{\n}"); }

}  // namespace
}  // namespace penstock::watch
