#include "cli/how_to_mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file_io.h"

namespace penstock::cli {
namespace {

// Changes the working directory while it lives.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::filesystem::path& path) { EXPECT_EQ(::chdir(path.c_str()), 0); }
  ~WorkingDirectory() { EXPECT_EQ(::fchdir(before_.get()), 0); }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;

 private:
  const FileDescriptor before_{::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

const std::filesystem::path& Self() {
  static const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return self;
}

TEST(ThisProgram, IsRelativeToTheWorkingDirectory) {
  const WorkingDirectory inside(Self().parent_path());
  EXPECT_EQ(ThisProgram(), Self().filename().string());
}

TEST(ThisProgram, IsAbsoluteIfTheWorkingDirectoryWasRemoved) {
  const std::filesystem::path folder = testing::TempDir() + "how_to_mount_test." + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const WorkingDirectory removed(folder);
  std::filesystem::remove(folder);
  EXPECT_EQ(ThisProgram(), Self().string());
}

}  // namespace
}  // namespace penstock::cli
