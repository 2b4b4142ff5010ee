#include "base/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace penstock {
namespace {

// A directory tree with the files of a system under test.
class MachineMemoryTest : public testing::Test {
 protected:
  MachineMemoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "machine_memory.XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    Write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          123456 kB\n");
  }
  ~MachineMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const char* path, std::string_view text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
};

constexpr uint64_t kMebi = 1 << 20;

TEST_F(MachineMemoryTest, ReturnsTheMachinesMemoryWithoutALimit) {
  EXPECT_EQ(MachineMemory(root_), 8192 * kMebi);
  Write("proc/self/cgroup", "0::/system.slice/penstock.service\n");
  Write("sys/fs/cgroup/system.slice/penstock.service/memory.max", "max\n");
  EXPECT_EQ(MachineMemory(root_), 8192 * kMebi);
}

TEST_F(MachineMemoryTest, ReturnsTheLowestLimitOfTheProcessesControlGroups) {
  Write("proc/self/cgroup", "0::/system.slice/penstock.service\n");
  Write("sys/fs/cgroup/system.slice/penstock.service/memory.max", "2147483648\n");
  EXPECT_EQ(MachineMemory(root_), 2048 * kMebi);
  Write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
  EXPECT_EQ(MachineMemory(root_), 1024 * kMebi);
  Write("sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(MachineMemory(root_), 512 * kMebi);
}

TEST_F(MachineMemoryTest, ReadsVersion1OfControlGroups) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n1:name=systemd:/x\n");
  Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "268435456\n");
  Write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(MachineMemory(root_), 256 * kMebi);
}

TEST(MachineMemory, ReturnsAPlausibleSizeOnThisMachine) {
  EXPECT_GT(MachineMemory(), kMebi);
  EXPECT_LT(MachineMemory(), uint64_t{1} << 60);
}

}  // namespace
}  // namespace penstock
