#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/test_temporary_directory.h"
#include "fs/ceph/module.h"

namespace penstock::fs::ceph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kModules = PENSTOCK_TEST_MODULES;

std::string WhyNot(std::vector<std::filesystem::path> folders) {
  const auto module = LoadModuleFrom(folders);
  return module ? "it is loaded" : module.error().message;
}

TEST(CephModule, IsLoadedFromTheFirstFolderThatHasIt) {
  const TemporaryDirectory empty;
  const std::vector<std::filesystem::path> folders{empty.path(), kModules / "good", kModules / "other_build"};
  const auto module = LoadModuleFrom(folders);
  ASSERT_TRUE(module) << module.error().message;
  const auto mounted = (*module)->Mount({.path = "/x"}, "", std::chrono::seconds(1));
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().message, "the test module mounts nothing at /x");
}

TEST(CephModule, IsToBeInstalledIfNoFolderHasIt) {
  const TemporaryDirectory empty;
  EXPECT_EQ(
      WhyNot({empty.path(), "/nowhere/at/all"}),
      "this server has no module for CephFS (penstock-ceph.so): install penstock-ceph, or build it (docs/cephfs.md)");
}

TEST(CephModule, OfAnotherBuildIsRefused) {
  EXPECT_THAT(WhyNot({kModules / "other_build", kModules / "good"}),
              AllOf(HasSubstr("other_build/penstock-ceph.so"), HasSubstr("another build of the server")));
}

TEST(CephModule, WithoutItsSymbolIsRefused) {
  EXPECT_THAT(WhyNot({kModules / "no_symbol"}), HasSubstr("it has no symbol penstock_ceph_module"));
}

TEST(CephModule, ThatDoesNotLoadTellsTheReason) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "penstock-ceph.so") << "this is no library";
  EXPECT_THAT(WhyNot({folder.path(), kModules / "good"}),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr("penstock-ceph.so")));
}

}  // namespace
}  // namespace penstock::fs::ceph
