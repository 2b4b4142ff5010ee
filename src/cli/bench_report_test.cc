#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BenchReport, JsonDoesNotRoundSmallNumbersToZero) {
  Measurement slow{.operation = {Operation::Kind::kWrite, 4096},
                   .depth = 1,
                   .seconds = 64,
                   .octets = 4096,
                   .client_cpu_us = 0.0004,
                   .server_cpu_us = 0.0003};
  slow.latency.Add(1ns);
  const std::string json = JsonReport({slow}, {});
  EXPECT_THAT(json, HasSubstr("\"per_second\": 0.015625,"));
  EXPECT_THAT(json, HasSubstr("\"mib_per_second\": 6.10352e-05,"));
  EXPECT_THAT(json, HasSubstr("\"p50\": 0.001,"));
  EXPECT_THAT(json, HasSubstr("\"client_cpu_us\": 0.0004,"));
  EXPECT_THAT(json, HasSubstr("\"server_cpu_us\": 0.0003}"));
}

TEST(BenchReport, TheTableHasAHeaderAndOneAlignedLineForEachMeasurement) {
  Measurement first{.operation = {Operation::Kind::kNull}, .depth = 1, .seconds = 2, .client_cpu_us = 1.234};
  first.latency.Add(50us);
  Measurement second{.operation = {Operation::Kind::kRead, 1 << 20},
                     .depth = 1024,
                     .seconds = 0.5,
                     .octets = 3 << 20,
                     .client_cpu_us = 20,
                     .server_cpu_us = 3.5};
  for (int i = 0; i < 3; ++i) second.latency.Add(1ms);
  EXPECT_EQ(
      TableOf({first, second}),
      "             depth      per s     MiB/s    p50 us    p90 us    p99 us  p99.9 us    max us  client us  "
      "server us\n"
      "        null     1          0         0      50.0      50.0      50.0      50.0      50.0       1.23          "
      "-\n"
      "      read1m  1024          6         6    1000.0    1000.0    1000.0    1000.0    1000.0      20.00       "
      "3.50\n");
}

TEST(BenchReport, JsonHasACommaBetweenMeasurementsAndNullForAnUnknownServerTime) {
  Measurement measurement{
      .operation = {Operation::Kind::kGetAttributes}, .depth = 8, .seconds = 1, .executed = 3, .client_cpu_us = 1};
  measurement.latency.Add(2us);
  const std::string json = JsonReport({measurement, measurement},
                                      {.version = "4.2", .transport = "tcp", .connections = 3, .file_size = 4096});
  EXPECT_THAT(json, StartsWith("{\"version\": \"4.2\", \"transport\": \"tcp\", \"crc\": false, \"connections\": 3, "
                               "\"file_size\": 4096, \"measurements\": [\n  {"));
  EXPECT_THAT(json,
              HasSubstr("\"operation\": \"getattr\", \"depth\": 8, \"seconds\": 1, \"count\": 1, \"executed\": 3,"));
  EXPECT_THAT(json, HasSubstr("\"server_cpu_us\": null},\n  {\"operation\": \"getattr\""));
  EXPECT_THAT(json, EndsWith("\"server_cpu_us\": null}\n]}\n"));
  EXPECT_THAT(JsonReport({}, {}), EndsWith("\"measurements\": [\n]}\n"));
}

}  // namespace
}  // namespace penstock::cli
