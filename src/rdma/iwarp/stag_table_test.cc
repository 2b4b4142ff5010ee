#include "rdma/iwarp/stag_table.h"

#include <gtest/gtest.h>

#include <set>

#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

TEST(StagTableTest, FindsRegionsUntilTheyAreInvalidated) {
  StagTable table(TestEntropy());
  Octets memory(100);
  std::vector<Stag> stags;
  for (int i = 0; i < 1000; ++i) stags.push_back(table.Register(memory, Access::kRemoteWrite).stag);
  EXPECT_EQ(std::set<Stag>(stags.begin(), stags.end()).size(), 1000u);
  for (Stag stag : stags) {
    const StagTable::Region* region = table.Find(stag);
    ASSERT_TRUE(region);
    EXPECT_EQ(region->stag, stag);
    EXPECT_EQ(region->memory.data(), memory.data());
  }
  for (size_t i = 0; i < stags.size(); i += 2) EXPECT_TRUE(table.Invalidate(stags[i]));
  for (size_t i = 0; i < stags.size(); ++i) EXPECT_EQ(table.Find(stags[i]) != nullptr, i % 2 == 1);
  EXPECT_EQ(table.size(), 500u);
  EXPECT_FALSE(table.Invalidate(stags[0]));
}

TEST(StagTableTest, DoesNotReuseAnInvalidatedStagSoon) {
  // The random numbers give the same STag again.
  int draws = 0;
  StagTable table([&] { return ++draws <= 2 ? 0x12345671u : 0x77777771u; });
  Octets memory(1);
  const Stag first = table.Register(memory, Access::kRemoteRead).stag;
  table.Invalidate(first);
  EXPECT_NE(table.Register(memory, Access::kRemoteRead).stag, first);
}

TEST(StagTableTest, NeverAssignsStagZero) {
  int draws = 0;
  StagTable table([&] { return ++draws == 1 ? 0u : 5u; });
  Octets memory(1);
  EXPECT_EQ(table.Register(memory, Access::kRemoteRead).stag, Stag(5));
  EXPECT_FALSE(table.Find(Stag(0)));
}

TEST(StagTableTest, InvalidateAllEndsExistingAndLaterRegions) {
  StagTable table(TestEntropy());
  Octets memory(1);
  const Stag before = table.Register(memory, Access::kRemoteRead).stag;
  table.InvalidateAll();
  EXPECT_FALSE(table.Find(before));
  EXPECT_FALSE(table.Find(table.Register(memory, Access::kRemoteRead).stag));
}

}  // namespace
}  // namespace penstock::rdma::iwarp
