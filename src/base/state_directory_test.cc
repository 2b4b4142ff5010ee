#include "base/state_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/test_log.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class StateDirectoryTest : public testing::Test {
 protected:
  StateDirectoryTest() {
    std::string name = testing::TempDir() + "/state.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    scratch_ = name;
  }
  ~StateDirectoryTest() override { std::filesystem::remove_all(scratch_); }

  static std::string RefusalOf(const std::filesystem::path& directory) {
    const auto opened = StateDirectory::Open(directory);
    return opened ? "" : opened.error().message;
  }
  std::string ReadRefusal(size_t max_size = 100) const {
    const auto read = ReadStateFile(file(), max_size, "all is lost");
    return read ? "" : read.error().message;
  }
  std::filesystem::path directory() const { return scratch_ / "made" / "state"; }
  std::filesystem::path file() const { return scratch_ / "file"; }

  std::filesystem::path scratch_;
};

TEST_F(StateDirectoryTest, MakesADirectoryThatOnlyItsOwnerCanUse) {
  ASSERT_EQ(RefusalOf(directory()), "");
  EXPECT_EQ(std::filesystem::status(directory()).permissions(), std::filesystem::perms::owner_all);
  ASSERT_EQ(RefusalOf(scratch_ / "other/"), "");
  EXPECT_EQ(std::filesystem::status(scratch_ / "other").permissions(), std::filesystem::perms::owner_all);
}

TEST_F(StateDirectoryTest, MakesADirectoryInTheCurrentOne) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch_);
  EXPECT_EQ(RefusalOf("state"), "");
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(scratch_ / "state"));
}

TEST_F(StateDirectoryTest, TakesTheRightToWriteFromTheGroupOfItsDirectory) {
  std::filesystem::create_directories(directory());
  for (const mode_t mode : {0770, 02775}) {
    ASSERT_EQ(::chmod(directory().c_str(), mode), 0);
    CapturedLog log;
    EXPECT_EQ(RefusalOf(directory()), "");
    EXPECT_THAT(log.TakeOne(), testing::HasSubstr("can no longer write to the state directory"));
    struct stat stat{};
    ASSERT_EQ(::stat(directory().c_str(), &stat), 0);
    EXPECT_EQ(stat.st_mode & 07777, mode & ~020u);
  }
}

TEST_F(StateDirectoryTest, RefusesAFileThatTheGroupOfItsDirectoryMayHaveReplaced) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs CAP_CHOWN";
  std::filesystem::create_directories(directory());
  std::ofstream(directory() / "key") << "key";
  ASSERT_EQ(::chown((directory() / "key").c_str(), 4711, 4711), 0);
  ASSERT_EQ(::chmod(directory().c_str(), 0770), 0);
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(RefusalOf(directory()), testing::HasSubstr("key in it belongs to user 4711"));
  }
  ASSERT_EQ(::chown((directory() / "key").c_str(), 0, 0), 0);
  CapturedLog log;
  EXPECT_EQ(RefusalOf(directory()), "");
}

TEST_F(StateDirectoryTest, RefusesADirectoryInWhichOthersMayReplaceFiles) {
  std::filesystem::create_directories(directory());
  for (const mode_t mode : {0707, 02777, 0777}) {
    ASSERT_EQ(::chmod(directory().c_str(), mode), 0);
    const auto opened = StateDirectory::Open(directory());
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, testing::HasSubstr("chmod go-w"));
  }
  // Others may list it; or add files, but not replace ours.
  for (const mode_t mode : {0700, 0755, 01777}) {
    ASSERT_EQ(::chmod(directory().c_str(), mode), 0);
    EXPECT_TRUE(StateDirectory::Open(directory())) << mode;
  }
}

TEST_F(StateDirectoryTest, RefusesADirectoryThatAnotherServerHasLocked) {
  auto first = StateDirectory::Open(directory());
  ASSERT_TRUE(first);
  const std::string refusal = RefusalOf(directory());
  EXPECT_THAT(refusal, HasSubstr(directory().string()));
  EXPECT_THAT(refusal, HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_THAT(refusal, HasSubstr("--state-dir"));
}

TEST_F(StateDirectoryTest, DestructorUnlocksTheDirectory) {
  {
    const auto first = StateDirectory::Open(directory());
    ASSERT_TRUE(first);
  }
  EXPECT_EQ(RefusalOf(directory()), "");
}

TEST_F(StateDirectoryTest, KilledProcessUnlocksTheDirectory) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = StateDirectory::Open(directory());
    const char done = opened ? 'y' : 'n';
    if (::write(ready[1], &done, 1) == 1) ::pause();
    ::_exit(1);
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_THAT(RefusalOf(directory()), HasSubstr("process " + std::to_string(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(RefusalOf(directory()), "");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(StateDirectoryTest, ErrorNamesTheDirectoryThatCannotBeMade) {
  std::ofstream(file()) << "a file";
  EXPECT_THAT(RefusalOf(file() / "state"), HasSubstr((file() / "state").string()));
}

TEST_F(StateDirectoryTest, WritesAFileThatOnlyItsOwnerCanRead) {
  const mode_t mask = ::umask(0);
  ASSERT_TRUE(WriteStateFile(file(), "some\n"));
  ::umask(mask);
  struct stat stat{};
  ASSERT_EQ(::stat(file().c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
  EXPECT_EQ(ReadStateFile(file(), 100, ""), "some\n");
}

TEST_F(StateDirectoryTest, ReplacesAFileAndRemovesTemporaryFiles) {
  ASSERT_TRUE(WriteStateFile(file(), "one"));
  std::ofstream(file().string() + ".new") << "left when the power failed";
  ASSERT_TRUE(WriteStateFile(file(), "two"));
  EXPECT_EQ(ReadStateFile(file(), 100, ""), "two");
  const std::filesystem::directory_iterator entries(scratch_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(StateDirectoryTest, RemovesOtherUsersRightsToAFile) {
  std::ofstream(file()) << "some";
  ASSERT_EQ(::chmod(file().c_str(), 0644), 0);
  EXPECT_EQ(ReadStateFile(file(), 100, ""), "some");
  struct stat stat{};
  ASSERT_EQ(::stat(file().c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
}

TEST_F(StateDirectoryTest, ReturnsNulloptForAMissingFile) { EXPECT_EQ(ReadStateFile(file(), 100, ""), std::nullopt); }

TEST_F(StateDirectoryTest, RejectsDirectoriesAndFifos) {
  std::filesystem::create_directory(file());
  EXPECT_THAT(ReadRefusal(), HasSubstr(file().string() + " is damaged (not a regular file)"));
  std::filesystem::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_THAT(ReadRefusal(), HasSubstr("not a regular file"));
}

TEST_F(StateDirectoryTest, RejectsAFileThatIsTooLong) {
  std::ofstream(file()) << "eight...";
  EXPECT_EQ(ReadRefusal(8), "");
  EXPECT_THAT(ReadRefusal(7), HasSubstr("all is lost"));
}

TEST_F(StateDirectoryTest, WriteErrorNamesTheFileAndAdvises) {
  const auto written = WriteStateFile(scratch_ / "none" / "file", "some");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr((scratch_ / "none" / "file").string()));
  EXPECT_THAT(StateFileError("write", "/a/b", ENOSPC).message,
              "cannot write /a/b: No space left on device; make room, or choose another directory with --state-dir");
}

}  // namespace
}  // namespace penstock
