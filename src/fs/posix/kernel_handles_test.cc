// The kernel's handles where the kernel refuses to open one. file_system_test.cc tests everything else.
#include "fs/posix/kernel_handles.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

namespace penstock::fs::posix {
namespace {

class KernelHandlesTest : public testing::Test {
 public:
  ~KernelHandlesTest() override { std::filesystem::remove_all(path_); }

 protected:
  KernelHandlesTest() : path_(MakeDirectory()), root_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  void SetUp() override {
    auto made =
        KernelHandles::Make(root_.get(), SipKey{1, 2}, [this](int mount, struct file_handle* handle, int flags) {
          ++calls_;
          if (failures_ == 0) return ::open_by_handle_at(mount, handle, flags);
          --failures_;
          errno = ENOMEM;
          return -1;
        });
    if (!made) GTEST_SKIP() << "the kernel gives no file handles here: run as root to try this";
    handles_ = *std::move(made);
    calls_ = 0;
  }

  // A new file, and its handle.
  Handle MakeFile() {
    const FileDescriptor file(::openat(root_.get(), "file", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_TRUE(file);
    const auto handle = handles_->HandleOf(file.get(), {}, {}, "file");
    EXPECT_TRUE(handle);
    return *handle;
  }

  const std::filesystem::path path_;
  const FileDescriptor root_;
  int failures_ = 0;  // so many calls from now on end with ENOMEM
  int calls_ = 0;
  std::unique_ptr<KernelHandles> handles_;

 private:
  static std::string MakeDirectory() {
    std::string name = "/var/tmp/penstock-test-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST_F(KernelHandlesTest, OpensAFileAfterAShortageOfMemory) {
  const Handle file = MakeFile();
  failures_ = 1;
  EXPECT_TRUE(handles_->Open(file));
  EXPECT_EQ(calls_, 2);
}

// While another file is being made with the number of the removed one, ext4 answers ENOMEM.
TEST_F(KernelHandlesTest, ReportsARemovedFileAsStaleWhileItsNumberIsUsedAgain) {
  const Handle file = MakeFile();
  ASSERT_EQ(::unlinkat(root_.get(), "file", 0), 0);
  failures_ = 2;
  const auto opened = handles_->Open(file);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Error::kStale);
}

TEST_F(KernelHandlesTest, AsksTheCallerToComeLaterWhereMemoryStaysShort) {
  const Handle file = MakeFile();
  failures_ = 1000;
  const auto opened = handles_->Open(file);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Error::kDelay);
  EXPECT_LT(calls_, 10);
}

}  // namespace
}  // namespace penstock::fs::posix
