#include "metrics/loop_counts.h"

#include <gtest/gtest.h>

#include <map>

namespace penstock::metrics {
namespace {

using namespace std::chrono_literals;

std::string_view NameOfTwo(uint32_t status) { return status == 2 ? "ERR_TWO" : ""; }

std::vector<Interface> Two() {
  return {{.key = {.program = 100003, .version = 3},
           .program = "NFS",
           .version = "3",
           .operations = {{0, "NULL", StatusPlace::kNone}, {6, "READ"}, {10044, "ODD"}},
           .status_name = &NameOfTwo},
          {.key = {.program = 100003, .version = 4, .variant = 2},
           .program = "NFS",
           .version = "4.1",
           .operations = {{1, "COMPOUND"}},
           .status_name = &NameOfTwo}};
}

std::map<uint32_t, uint64_t> StatusesOf(const OperationCounts& counts) {
  std::map<uint32_t, uint64_t> found;
  counts.statuses().ForEach(
      [&](std::optional<uint32_t> status, uint64_t count) { found[status.value_or(UINT32_MAX)] = count; });
  return found;
}

TEST(LoopCountsTest, FindsInterfacesByTheirKeys) {
  const auto interfaces = Two();
  const Clock clock;
  NamedExports named;
  LoopCounts counts(interfaces, clock, named);
  ASSERT_NE(counts.Find({100003, 3, 0}), nullptr);
  EXPECT_EQ(counts.Find({100003, 3, 0})->interface().version, "3");
  EXPECT_EQ(counts.Find({100003, 4, 2})->interface().version, "4.1");
  EXPECT_EQ(counts.Find({100003, 4, 0}), nullptr);
}

TEST(LoopCountsTest, CountsOperationsByStatusAndLatency) {
  const auto interfaces = Two();
  const Clock clock;
  NamedExports named;
  LoopCounts counts(interfaces, clock, named);
  InterfaceCounts& nfs3 = *counts.Find({100003, 3, 0});
  EXPECT_EQ(nfs3.Find(1), nullptr);
  nfs3.Get(6).Record(0, 15us);
  nfs3.Get(6).Record(2, 15us);
  nfs3.Get(6).Record(0, 1ms);
  ASSERT_NE(nfs3.Find(1), nullptr);
  EXPECT_EQ(StatusesOf(*nfs3.Find(1)), (std::map<uint32_t, uint64_t>{{0, 2}, {2, 1}}));
  EXPECT_EQ(nfs3.Find(1)->latency().Read().count(), 3u);
  EXPECT_EQ(nfs3.Find(0), nullptr);
}

TEST(LoopCountsTest, CountsUnknownOperationsTogether) {
  const auto interfaces = Two();
  const Clock clock;
  NamedExports named;
  LoopCounts counts(interfaces, clock, named);
  InterfaceCounts& nfs3 = *counts.Find({100003, 3, 0});
  nfs3.Get(99).Record(0, 1us);
  nfs3.Get(4'000'000'000).Record(0, 1us);
  nfs3.Get(10044).Record(0, 1us);
  EXPECT_EQ(nfs3.Find(3)->latency().Read().count(), 2u);
  EXPECT_EQ(nfs3.Find(2)->latency().Read().count(), 1u);
  EXPECT_EQ(nfs3.Get(0).status_place(), StatusPlace::kNone);
  EXPECT_EQ(nfs3.Get(6).status_place(), StatusPlace::kFirst);
  EXPECT_EQ(nfs3.Get(99).status_place(), StatusPlace::kNone);
}

TEST(LoopCountsTest, CountsSurplusStatusesTogether) {
  StatusCounts counts;
  for (uint32_t status = 0; status < 40; ++status) counts.Add(status);
  uint64_t known = 0, others = 0;
  counts.ForEach([&](std::optional<uint32_t> status, uint64_t count) { (status ? known : others) += count; });
  EXPECT_EQ(known, 31u);
  EXPECT_EQ(others, 9u);
}

TEST(LoopCountsTest, CountsExportsById) {
  NamedExports named;
  ExportTable table(named);
  table.Get(7).Record(0, 1us, 100, 0);
  table.Get(9).Record(0, 1us, 0, 50);
  table.Get(7).Record(5, 2ms, 100, 0);
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> found;
  table.ForEach([&](std::optional<uint32_t> id, const ExportCounts& counts) {
    found[id.value_or(0)] = {counts.operations.value(), counts.read_octets.value()};
  });
  EXPECT_EQ(found[7], std::pair(uint64_t{2}, uint64_t{100}));
  EXPECT_EQ(found[9], std::pair(uint64_t{1}, uint64_t{0}));
  EXPECT_EQ(table.Get(7).nanoseconds.value(), 2'001'000u);
  EXPECT_EQ(table.Get(7).faults[static_cast<size_t>(DiskFault::kIo)].value(), 1u);
}

TEST(LoopCountsTest, CountsSurplusExportsTogether) {
  NamedExports named;
  ExportTable table(named);
  for (uint32_t id = 1; id <= NamedExports::kMost + 5; ++id) table.Get(id).Record(0, 1us, 0, 0);
  uint64_t others = 0;
  table.ForEach([&](std::optional<uint32_t> id, const ExportCounts& counts) {
    if (!id) others = counts.operations.value();
  });
  EXPECT_EQ(others, 5u);
}

TEST(LoopCountsTest, NamesStatuses) {
  const Interface nfs3 = Two().front();
  EXPECT_EQ(StatusName(nfs3, 0), "OK");
  EXPECT_EQ(StatusName(nfs3, 2), "ERR_TWO");
  EXPECT_EQ(StatusName(nfs3, 3), "3");
  EXPECT_EQ(StatusName(nfs3, kAcceptStatus | 4), "GARBAGE_ARGS");
  EXPECT_EQ(StatusName(nfs3, kAuthStatus | 5), "AUTH_TOOWEAK");
  EXPECT_EQ(StatusName(nfs3, kDropped), "NO_REPLY");
}

}  // namespace
}  // namespace penstock::metrics
