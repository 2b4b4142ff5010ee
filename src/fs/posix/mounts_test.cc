#include "fs/posix/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/posix/posix_test.h"

namespace penstock::fs::posix {
namespace {

TEST(MountsTest, TheRootIsAMountPointAndAFileIsNone) {
  EXPECT_TRUE(IsMountPoint("/"));
  EXPECT_TRUE(IsMountPoint("/proc"));
  EXPECT_FALSE(IsMountPoint("/proc/self"));
  EXPECT_FALSE(IsMountPoint("/proc/version"));
  EXPECT_FALSE(IsMountPoint("/no such directory"));
}

TEST(MountsTest, LeavesOutFileSystemsOfTheKernel) {
  const auto mounts = MountsBelow("/");
  ASSERT_TRUE(mounts);
  EXPECT_THAT(*mounts, testing::Not(testing::Contains("/proc")));
}

TEST(MountsTest, NothingIsMountedBelowAFreshDirectory) {
  std::string name = testing::TempDir() + "/mounts.XXXXXX";
  ASSERT_TRUE(::mkdtemp(name.data()));
  EXPECT_THAT(*MountsBelow(name), testing::IsEmpty());
  std::filesystem::remove(name);
}

TEST(MountsTest, FailsWithoutTheDirectory) { EXPECT_FALSE(MountsBelow("/no such directory")); }

}  // namespace
}  // namespace penstock::fs::posix
