#include "cli/mount_helper.h"

#include <gmock/gmock.h>

namespace penstock::cli {
namespace {

using testing::ElementsAre;

TEST(MountHelper, ItsNameTells) {
  EXPECT_TRUE(IsMountHelper("/sbin/mount.penstock"));
  EXPECT_TRUE(IsMountHelper("mount.penstock"));
  EXPECT_FALSE(IsMountHelper("/usr/bin/penstock"));
}

TEST(MountHelper, TakesTheArgumentsOfMount) {
  EXPECT_THAT(WithoutMountHelper({"/sbin/mount.penstock", "host:/a", "/mnt", "-o", "rw,vers=4.2"}),
              ElementsAre("penstock", "mount", "host:/a", "/mnt", "-o", "rw,vers=4.2"));
  EXPECT_THAT(WithoutMountHelper({"mount.penstock", "host:/a", "/mnt", "-sfnv", "-t", "penstock"}),
              ElementsAre("penstock", "mount", "host:/a", "/mnt", "--fake", "-v"));
  EXPECT_THAT(WithoutMountHelper({"mount.penstock", "-rw", "host:/a", "/mnt"}),
              ElementsAre("penstock", "mount", "-o", "ro", "host:/a", "/mnt"));
  EXPECT_THAT(WithoutMountHelper({"mount.penstock", "-N", "host:/a"}),
              ElementsAre("penstock", "mount", "-N", "host:/a"))
      << "the parser refuses it";
}

}  // namespace
}  // namespace penstock::cli
