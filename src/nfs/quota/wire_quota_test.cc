#include "nfs/quota/wire_quota.h"

#include <gtest/gtest.h>

namespace penstock::nfs::quota {
namespace {

constexpr uint64_t kTib = uint64_t{1} << 40;

TEST(WireQuota, CountsBlocksOfOneKib) {
  const fs::Quota quota{.bytes = {.used = 1'048'576, .hard = 10'240'000, .soft = 8'192'000},
                        .files = {.used = 3, .hard = 100, .soft = 90},
                        .enforced = true};
  const rquota::rquotablk expected{.rq_bsize = 1024,
                                   .rq_active = true,
                                   .rq_bhardlimit = 10'000,
                                   .rq_bsoftlimit = 8'000,
                                   .rq_curblocks = 1024,
                                   .rq_fhardlimit = 100,
                                   .rq_fsoftlimit = 90,
                                   .rq_curfiles = 3,
                                   .rq_btimeleft = 0,
                                   .rq_ftimeleft = 0};
  EXPECT_EQ(WireQuota(quota, 1000), expected);
}

TEST(WireQuota, BlocksGrowWithTheNumbers) {
  EXPECT_EQ(WireQuota({.bytes = {.hard = 4 * kTib - 2048}}, 0).rq_bsize, 1024);
  const auto large = WireQuota({.bytes = {.used = 1025, .hard = 4 * kTib, .soft = kTib}}, 0);
  EXPECT_EQ(large.rq_bsize, 2048);
  EXPECT_EQ(large.rq_bhardlimit, uint32_t{1} << 31);
  EXPECT_EQ(large.rq_bsoftlimit, uint32_t{1} << 29);
  EXPECT_EQ(large.rq_curblocks, 1u);
  const auto largest = WireQuota({.bytes = {.hard = UINT64_MAX}}, 0);
  EXPECT_EQ(largest.rq_bsize, 1 << 30);
  EXPECT_EQ(largest.rq_bhardlimit, UINT32_MAX);
}

TEST(WireQuota, NoLimitIsZeroAndASmallLimitIsNot) {
  const auto small = WireQuota({.bytes = {.used = 1, .hard = 0, .soft = 1}}, 0);
  EXPECT_EQ(small.rq_bhardlimit, 0u);
  EXPECT_EQ(small.rq_bsoftlimit, 1u);
  EXPECT_EQ(small.rq_curblocks, 1u);
}

TEST(WireQuota, TellsTheTimeThatIsLeft) {
  const auto left = [](int64_t ends, int64_t now) {
    return WireQuota({.bytes = {.grace_ends = ends}}, now).rq_btimeleft;
  };
  EXPECT_EQ(left(0, 5000), 0);
  EXPECT_EQ(left(5060, 5000), 60);
  EXPECT_EQ(left(4940, 5000), -60);
  EXPECT_EQ(left(5000, 5000), -1) << "over, which zero would not say";
  EXPECT_EQ(left(INT64_MAX, 0), INT32_MAX);
  EXPECT_EQ(WireQuota({.files = {.grace_ends = 1010}}, 1000).rq_ftimeleft, 10);
}

}  // namespace
}  // namespace penstock::nfs::quota
