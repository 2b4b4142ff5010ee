// Tests of the fsid, which must not depend on the number of the device.
#include "fs/posix/fsid.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "fs/posix/path.h"
#include "fs/posix/stat.h"
#include "fs/posix/test_loop_device.h"

namespace penstock::fs::posix {
namespace {

constexpr Device kOne{.major = 8, .minor = 1};
constexpr Device kOther{.major = 253, .minor = 0x12345};

std::vector<std::byte> Octets(std::string_view text) {
  const ConstBytes octets = AsBytes(text);
  return {octets.begin(), octets.end()};
}

TEST(FsidTest, EqualsTheKernelsFsidIfThatDependsOnTheUuid) {
  EXPECT_EQ(FsidOf({.kernel_fsid = 0x1234'5678'9abc'def0, .device = kOne}), 0x1234'5678'9abc'def0u);
  EXPECT_EQ(FsidOf({.kernel_fsid = 0x1234'5678'9abc'def0, .device = kOther, .uuid = Octets("sixteen octets..")}),
            0x1234'5678'9abc'def0u);
}

// XFS, FAT and many others report the device number (huge_encode_dev of the kernel).
TEST(FsidTest, DependsOnTheUuidOnlyIfTheKernelReportsTheDeviceNumber) {
  const auto uuid = Octets("sixteen octets..");
  const uint64_t one = FsidOf({.kernel_fsid = 0x801, .device = kOne, .uuid = uuid});
  EXPECT_EQ(one, FsidOf({.kernel_fsid = 0x1230fd45, .device = kOther, .uuid = uuid}));
  EXPECT_NE(one, FsidOf({.kernel_fsid = 0x801, .device = kOne, .uuid = Octets("sixteen others..")}));
  EXPECT_EQ(FsidOf({.kernel_fsid = 0x801, .device = kOne, .uuid = Octets("four")}),
            FsidOf({.kernel_fsid = 0, .device = kOther, .uuid = Octets("four")}));
}

TEST(FsidTest, EqualsTheDeviceNumberWithoutAUuid) {
  EXPECT_EQ(FsidOf({.kernel_fsid = 0, .device = kOne}), makedev(8, 1));
  EXPECT_EQ(FsidOf({.kernel_fsid = 0x801, .device = kOne}), makedev(8, 1));
  EXPECT_NE(FsidOf({.kernel_fsid = 0, .device = kOther}), FsidOf({.kernel_fsid = 0, .device = kOne}));
}

// The test makes a directory like that of udev, with a device node.
TEST(FsidTest, FindsTheUuidInTheDirectoryOfUdev) {
  std::string folder = "/var/tmp/penstock-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string device = folder + "/device";
  const bool made = ::mknod(device.c_str(), S_IFBLK | 0600, makedev(7, 4321)) == 0;
  std::filesystem::create_symlink(device, folder + "/1b4e28ba-2fa1-11D2-883f-0016d3cca427");
  std::filesystem::create_symlink(folder, folder + "/00000000-2fa1-11D2-883f-0016d3cca427");
  // /proc is not on a disk: neither the kernel nor XFS reports a UUID.
  const FileDescriptor fd(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto found = FindUuid(fd.get(), {.major = 7, .minor = 4321}, folder);
  const auto none = FindUuid(fd.get(), {.major = 7, .minor = 4322}, folder);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(none.empty());
  if (!made) GTEST_SKIP() << "cannot make devices: run as root for this test";
  ASSERT_EQ(found.size(), 16u);
  EXPECT_EQ(found[0], std::byte{0x1b});
  EXPECT_EQ(found[6], std::byte{0x11});
  EXPECT_EQ(found[15], std::byte{0x27});
}

// The file system is attached by one loop device, and then by another.
TEST(FsidTest, StaysTheSameUnderAnotherDeviceNumber) {
  std::string folder = "/var/tmp/penstock-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string image = folder + "/image", mounted = folder + "/mounted";
  std::filesystem::create_directory(mounted);
  struct Seen {
    uint64_t device = 0, fsid = 0;
  };
  std::vector<Seen> seen;
  const bool made = MakeFileSystem(image, "ext4", "4M");
  {
    std::vector<std::unique_ptr<LoopDevice>> loops;  // the first device stays, so that the second has another number
    for (int attempt = 0; attempt < 2 && made; ++attempt) {
      const LoopDevice& loop = *loops.emplace_back(std::make_unique<LoopDevice>(image));
      if (loop.name().empty() || ::mount(loop.name().c_str(), mounted.c_str(), "ext4", 0, nullptr) != 0) break;
      {
        const FileDescriptor fd(::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto volume = VolumeOf(fd.get(), std::make_shared<ChangeCounters>());
        if (volume) seen.push_back({volume->device, volume->fsid});
      }
      ::umount(mounted.c_str());
    }
  }
  std::filesystem::remove_all(folder);
  if (seen.size() < 2) GTEST_SKIP() << "cannot mount disks from files: run as root, with e2fsprogs, for this test";
  EXPECT_NE(seen[0].device, seen[1].device);
  EXPECT_EQ(seen[0].fsid, seen[1].fsid);
}

TEST(FsidTest, SuperblockIsTheDeviceOfAFileSystemWithOneDevice) {
  const FileDescriptor fd(::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat stat{};
  ASSERT_EQ(::fstat(fd.get(), &stat), 0);
  EXPECT_EQ(SuperblockOf(fd.get()), stat.st_dev);
}

}  // namespace
}  // namespace penstock::fs::posix
