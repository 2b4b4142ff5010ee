// Reads quotas of file systems that the kernel keeps them for. Most kernels of containers and small machines do not.
#include "fs/posix/quota.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/data.h"
#include "base/result.h"
#include "fs/posix/test_loop_device.h"

namespace penstock::fs::posix {
namespace {

FileDescriptor Open(const std::string& path) { return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

TEST(Quota, AFileSystemWithoutQuotasHasNone) {
  const FileDescriptor proc = Open("/proc");
  for (const auto kind : {QuotaKind::kUser, QuotaKind::kGroup}) {
    const auto quota = ReadQuota(proc.get(), kind, 0);
    ASSERT_TRUE(quota);
    EXPECT_EQ(*quota, std::nullopt);
  }
  EXPECT_FALSE(KeepsQuotas(proc.get()));
}

// A file system with quotas of users, in a file.
class QuotaOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/var/tmp/penstock-quota-XXXXXX";
    folder_ = ::mkdtemp(folder);
    const std::string image = folder_ + "/image";
    if (LoopDevice::Output("truncate -s 16M " + image + " && mkfs.ext4 -q -O quota " + image + " 2>&1 && echo ok") !=
        "ok")
      GTEST_SKIP() << "no file system with quotas can be made (mkfs.ext4)";
    device_.emplace(image);
    if (device_->name().empty()) GTEST_SKIP() << "no permission to make a loop device";
    mounted_ = folder_ + "/mounted";
    std::filesystem::create_directory(mounted_);
    if (::mount(device_->name().c_str(), mounted_.c_str(), "ext4", 0, "usrquota,grpquota") != 0) {
      const std::string why = DescribeErrno(errno);
      mounted_.clear();
      GTEST_SKIP() << "the kernel mounts no file system with quotas (CONFIG_QFMT_V2): " << why;
    }
  }
  ~QuotaOnDisk() override {
    if (!mounted_.empty()) ::umount(mounted_.c_str());
    device_.reset();
    std::filesystem::remove_all(folder_);
  }

  void SetLimits(uint32_t uid, uint64_t hard_kib, uint64_t soft_kib, uint64_t hard_files) {
    dqblk limits{};
    limits.dqb_bhardlimit = hard_kib;
    limits.dqb_bsoftlimit = soft_kib;
    limits.dqb_ihardlimit = hard_files;
    limits.dqb_valid = QIF_LIMITS;
    ASSERT_EQ(::quotactl(QCMD(Q_SETQUOTA, USRQUOTA), device_->name().c_str(), static_cast<int>(uid),
                         reinterpret_cast<char*>(&limits)),
              0)
        << DescribeErrno(errno);
  }
  void MakeFile(const std::string& name, uint32_t uid, size_t size) {
    const std::string path = mounted_ + "/" + name;
    std::ofstream(path) << std::string(size, 'x');
    ASSERT_EQ(::chown(path.c_str(), uid, uid), 0);
    ::sync();
  }

  std::string folder_;
  std::string mounted_;
  std::optional<LoopDevice> device_;
};

TEST_F(QuotaOnDisk, TellsLimitsAndUse) {
  SetLimits(1234, 100, 40, 10);
  MakeFile("small", 1234, 20 << 10);
  const FileDescriptor root = Open(mounted_);
  EXPECT_TRUE(KeepsQuotas(root.get()));
  auto quota = ReadQuota(root.get(), QuotaKind::kUser, 1234);
  ASSERT_TRUE(quota && *quota);
  EXPECT_EQ((*quota)->bytes, (QuotaUse{.used = 20 << 10, .hard = 100 << 10, .soft = 40 << 10}));
  EXPECT_EQ((*quota)->files, (QuotaUse{.used = 1, .hard = 10}));
  EXPECT_TRUE((*quota)->enforced);

  MakeFile("large", 1234, 30 << 10);
  quota = ReadQuota(root.get(), QuotaKind::kUser, 1234);
  ASSERT_TRUE(quota && *quota);
  EXPECT_EQ((*quota)->bytes.used, uint64_t{52} << 10) << "in blocks of 4 KiB";
  EXPECT_GT((*quota)->bytes.grace_ends, ::time(nullptr)) << "the soft limit is exceeded";

  const auto group = ReadQuota(root.get(), QuotaKind::kGroup, 1234);
  ASSERT_TRUE(group && *group);
  EXPECT_EQ((*group)->bytes, (QuotaUse{.used = 52 << 10}));
}

TEST_F(QuotaOnDisk, AnIdThatOwnsNothingHasNoLimits) {
  const FileDescriptor root = Open(mounted_);
  const auto quota = ReadQuota(root.get(), QuotaKind::kUser, 4321);
  ASSERT_TRUE(quota && *quota);
  EXPECT_EQ(**quota, Quota{.enforced = true});
}

}  // namespace
}  // namespace penstock::fs::posix
