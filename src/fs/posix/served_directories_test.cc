#include "fs/posix/served_directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace penstock::fs::posix {
namespace {

namespace stdfs = std::filesystem;

class ServedDirectoriesTest : public testing::Test {
 protected:
  ServedDirectoriesTest() {
    std::string name = testing::TempDir() + "/served.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    scratch_ = name;
    for (const char* each : {"state", "a", "a/inner", "b"}) stdfs::create_directory(scratch_ / each);
    served_.emplace(pool_, ServedDirectoriesOptions{.state_directory = scratch_ / "state"});
  }
  ~ServedDirectoriesTest() override {
    now_.clear();
    served_.reset();
    pool_.Join();
    stdfs::remove_all(scratch_);
  }
  // Serves these directories from now on, each under its own name, and returns their file systems.
  std::vector<std::shared_ptr<FileSystem>> Open(std::initializer_list<const char*> names) {
    std::vector<DirectoryToServe> directories;
    for (const char* each : names) directories.push_back({std::string("/") + each, scratch_ / each});
    auto opened = served_->Open(directories);
    EXPECT_TRUE(opened) << opened.error().message;
    now_ = *std::move(opened);
    return now_;
  }

  stdfs::path scratch_;
  Workers pool_{2};
  std::optional<ServedDirectories> served_;
  std::vector<std::shared_ptr<FileSystem>> now_;
};

TEST_F(ServedDirectoriesTest, KeepsTheFileSystemsThatStay) {
  const auto first = Open({"a"});
  const auto second = Open({"b", "a"});
  EXPECT_EQ(second[1], first[0]);
  const auto third = Open({"b"});
  EXPECT_EQ(third[0], second[0]);
}

// Its handles could be those of files that the inner export now protects.
TEST_F(ServedDirectoriesTest, OpensAFileSystemAgainWhenADirectoryBelowItGetsAnExport) {
  const auto first = Open({"a"});
  const auto second = Open({"a", "a/inner"});
  EXPECT_NE(second[0], first[0]);
  EXPECT_EQ(Open({"a", "a/inner"})[0], second[0]);
}

TEST_F(ServedDirectoriesTest, OpensADirectoryThatWasReplaced) {
  const auto first = Open({"b"});
  stdfs::rename(scratch_ / "b", scratch_ / "old");
  stdfs::create_directory(scratch_ / "b");
  EXPECT_NE(Open({"b"})[0], first[0]);
}

TEST_F(ServedDirectoriesTest, AFailureLeavesWhatIsServedAsItIs) {
  const auto first = Open({"a"});
  const std::vector<DirectoryToServe> wrong = {{"/a", scratch_ / "a"}, {"/c", scratch_ / "missing"}};
  EXPECT_FALSE(served_->Open(wrong));
  EXPECT_EQ(Open({"a"})[0], first[0]);
}

// The server may refuse the new exports for another reason.
TEST_F(ServedDirectoriesTest, FindsWhatIsServedAgainWhenNewOnesWereNotUsed) {
  const auto first = Open({"a"});
  Open({"a", "a/inner"});
  EXPECT_EQ(Open({"a"})[0], first[0]);
}

TEST_F(ServedDirectoriesTest, DoesNotHoldWhatNobodyServes) {
  const std::weak_ptr<FileSystem> first = Open({"a"})[0];
  Open({"b"});
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace penstock::fs::posix
