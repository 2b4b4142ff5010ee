#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(BenchReport, JsonDoesNotRoundSmallNumbersToZero) {
  Measurement slow{.operation = Operation::kWriteSmall,
                   .depth = 1,
                   .seconds = 64,
                   .octets = 4096,
                   .client_cpu_us = 0.0004,
                   .server_cpu_us = 0.0003};
  slow.latency.Add(1ns);
  const std::string json = Json({slow}, "rdma", true, 2 << 20);
  EXPECT_THAT(json, HasSubstr("\"per_second\": 0.015625,"));
  EXPECT_THAT(json, HasSubstr("\"mib_per_second\": 6.10352e-05,"));
  EXPECT_THAT(json, HasSubstr("\"p50\": 0.001,"));
  EXPECT_THAT(json, HasSubstr("\"client_cpu_us\": 0.0004,"));
  EXPECT_THAT(json, HasSubstr("\"server_cpu_us\": 0.0003}"));
}

TEST(BenchReport, FindsEveryOperationByItsName) {
  for (const std::string_view name : {"null", "getattr", "read1m", "write1m", "read4k", "write4k"})
    EXPECT_EQ(OperationOf(name).transform(NameOf), name);
  EXPECT_EQ(OperationOf("erase"), std::nullopt);
}

}  // namespace
}  // namespace penstock::cli
