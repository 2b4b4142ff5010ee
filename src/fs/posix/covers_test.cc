// Tests of the directories that are covered by other exports.
#include "fs/posix/covers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fs/posix/path.h"
#include "fs/posix/stat.h"
#include "fs/posix/test_loop_device.h"

namespace penstock::fs::posix {
namespace {

// Whether `name` in `root` is covered if another export serves `other`.
bool IsCovered(const std::string& root, const std::string& name, const std::string& other) {
  const FileDescriptor fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto volume = VolumeOf(fd.get(), std::make_shared<ChangeCounters>());
  const std::vector<std::filesystem::path> others = {other};
  return volume && Covers(fd.get(), *volume, others).HasPlace(fd.get(), name);
}

// A client that can move the directory, and put another one in its place, reaches neither of them.
TEST(CoversTest, CoversAMovedDirectoryAndItsFormerPlace) {
  std::string top = "/var/tmp/penstock-test-XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  std::filesystem::create_directory(top + "/sub");
  std::filesystem::create_directory(top + "/other");
  const FileDescriptor fd(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto volume = VolumeOf(fd.get(), std::make_shared<ChangeCounters>());
  ASSERT_TRUE(volume);
  const std::vector<std::filesystem::path> others = {top + "/sub"};
  const Covers covers(fd.get(), *volume, others);
  std::filesystem::rename(top + "/sub", top + "/moved");
  const auto has = [&](const char* name) {
    const FileDescriptor found(::openat(fd.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return covers.Has(*StatOf(found.get(), *volume));
  };
  EXPECT_TRUE(has("moved"));
  EXPECT_FALSE(has("other"));
  EXPECT_TRUE(covers.HasPlace(fd.get(), "sub"));
  EXPECT_FALSE(covers.HasPlace(fd.get(), "moved"));
  std::filesystem::remove_all(top);
}

// A referral's directory may be made, or vanish, between two starts. Handles stay valid.
TEST(CoversTest, AHiddenDirectoryIsCoveredWithoutAnEffectOnHandles) {
  std::string top = "/var/tmp/penstock-test-XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  std::filesystem::create_directory(top + "/sub");
  const FileDescriptor fd(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto volume = VolumeOf(fd.get(), std::make_shared<ChangeCounters>());
  ASSERT_TRUE(volume);
  const std::vector<std::filesystem::path> directories = {top + "/sub", top + "/missing"};
  const Covers hidden(fd.get(), *volume, {}, directories);
  EXPECT_TRUE(hidden.HasPlace(fd.get(), "sub"));
  EXPECT_FALSE(hidden.HasPlace(fd.get(), "missing"));
  EXPECT_TRUE(hidden.identity().empty());
  EXPECT_FALSE(Covers(fd.get(), *volume, directories).identity().empty());
  std::filesystem::remove_all(top);
}

// The subvolume has another device than the export above it, and its ".." entries do not lead there.
TEST(CoversTest, CoversASubvolumeThatIsExportedThroughABindMount) {
  std::string folder = "/var/tmp/penstock-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string image = folder + "/image", disk = folder + "/disk", bound = folder + "/bound";
  const std::string top = disk + "/top", sub = top + "/sub";
  std::filesystem::create_directory(disk);
  std::filesystem::create_directory(bound);
  bool tried = false;
  if (MakeFileSystem(image, "btrfs", "128M")) {
    const LoopDevice loop(image);
    if (!loop.name().empty() && ::mount(loop.name().c_str(), disk.c_str(), "btrfs", 0, nullptr) == 0) {
      std::filesystem::create_directory(top);
      const std::string created = LoopDevice::Output("btrfs subvolume create " + sub + " >/dev/null && echo ok");
      if (created == "ok" && ::mount(sub.c_str(), bound.c_str(), nullptr, MS_BIND, nullptr) == 0) {
        tried = true;
        EXPECT_TRUE(IsCovered(top, "sub", bound));
        EXPECT_FALSE(IsCovered(bound, "sub", top)) << "a directory above the export is not covered";
        ::umount(bound.c_str());
      }
      ::umount(disk.c_str());
    }
  }
  std::filesystem::remove_all(folder);
  if (!tried) GTEST_SKIP() << "cannot mount btrfs from a file: run as root, with btrfs-progs, for this test";
}

}  // namespace
}  // namespace penstock::fs::posix
