// Tests of kernel handles that the kernel refuses to open. file_system_test.cc and names_and_handles_test.cc test all
// other properties.
#include "fs/posix/kernel_handles.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::fs::posix {
namespace {

class KernelHandlesTest : public testing::Test {
 public:
  ~KernelHandlesTest() override { std::filesystem::remove_all(path_); }

 protected:
  KernelHandlesTest() : path_(MakeDirectory()), root_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  void SetUp() override {
    auto made = Make("/", [this](int mount, struct file_handle* handle, int flags) {
      ++calls_;
      if (failures_ == 0) return ::open_by_handle_at(mount, handle, flags);
      --failures_;
      errno = ENOMEM;
      return -1;
    });
    if (!made) GTEST_SKIP() << "the kernel gives no file handles: run as root for this test";
    handles_ = *std::move(made);
    calls_ = 0;
  }

  Result<std::unique_ptr<KernelHandles>> Make(std::string_view export_name,
                                              KernelHandles::OpenByHandle open = ::open_by_handle_at,
                                              Covers covers = {}) {
    return KernelHandles::Make(root_.get(), *VolumeOf(root_.get(), std::make_shared<ChangeCounters>()), SipKey{1, 2},
                               export_name, std::move(covers), known_, std::move(open));
  }

  // Makes a file and returns its handle.
  Handle MakeFile() {
    const FileDescriptor file(::openat(root_.get(), "file", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_TRUE(file);
    const auto handle = handles_->HandleOf(file.get(), {}, {}, "file");
    EXPECT_TRUE(handle);
    return *handle;
  }

  const std::filesystem::path path_;
  const FileDescriptor root_;
  const std::shared_ptr<KnownHandles> known_ = std::make_shared<KnownHandles>();
  int failures_ = 0;  // this number of calls fails with ENOMEM from now on
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

// While another file is being created with the inode number of the removed one, ext4 fails with ENOMEM.
TEST_F(KernelHandlesTest, ReportsARemovedFileAsStaleWhileItsInodeNumberIsReused) {
  const Handle file = MakeFile();
  ASSERT_EQ(::unlinkat(root_.get(), "file", 0), 0);
  failures_ = 2;
  const auto opened = handles_->Open(file);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Error::kStale);
}

TEST_F(KernelHandlesTest, DelaysTheCallerIfMemoryStaysShort) {
  const Handle file = MakeFile();
  failures_ = 1000;
  const auto opened = handles_->Open(file);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Error::kDelay);
  EXPECT_LT(calls_, 10);
}

TEST_F(KernelHandlesTest, HandleIsValidInItsOwnExportOnly) {
  const Handle file = MakeFile();
  const auto other = Make("/other");
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->Identify(file).error(), Error::kBadHandle);
  EXPECT_EQ((*other)->Open(file).error(), Error::kBadHandle);
  EXPECT_EQ((*other)->Open(handles_->Root()).error(), Error::kBadHandle);
  const auto same = Make("/");
  ASSERT_TRUE(same);
  EXPECT_TRUE((*same)->Open(file));
}

TEST_F(KernelHandlesTest, FileHasOneIdentityInAllExports) {
  const Handle file = MakeFile();
  const auto other = Make("/other");
  ASSERT_TRUE(other);
  const FileDescriptor fd(::openat(root_.get(), "file", O_PATH | O_CLOEXEC));
  const Result<Handle> again = (*other)->HandleOf(fd.get(), {}, {}, "file");
  ASSERT_TRUE(again);
  EXPECT_NE(*again, file);
  EXPECT_EQ(*(*other)->Identify(*again), *handles_->Identify(file));
  EXPECT_NE(*handles_->Identify(file), *handles_->Identify(handles_->Root()));
}

// Handles of the first versions did not depend on the export.
TEST_F(KernelHandlesTest, HandlesOfEarlierVersionsAreStale) {
  const Handle file = MakeFile();
  std::vector<std::byte> octets(file.bytes().begin(), file.bytes().end());
  octets[0] = std::byte{1};
  EXPECT_EQ(handles_->Open(*Handle::FromBytes(octets)).error(), Error::kStale);
  octets[0] = std::byte{77};
  EXPECT_EQ(handles_->Open(*Handle::FromBytes(octets)).error(), Error::kBadHandle);
}

}  // namespace
}  // namespace penstock::fs::posix
