// Tests of locks that local programs see. Other open file descriptions in this process act as the programs.
#include "fs/posix/local_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

namespace penstock::fs::posix {
namespace {

class OfdLocksTest : public testing::Test {
 protected:
  ~OfdLocksTest() override {
    ours_.reset();
    others_.reset();
    pool_.Join();
    std::filesystem::remove_all(path_);
  }
  FileDescriptor Open(int flags = O_RDWR) {
    return FileDescriptor(::open((path_ + "/file").c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
  }
  std::unique_ptr<OfdLocks> MakeLocks(int flags = O_RDWR) {
    return std::make_unique<OfdLocks>(std::make_shared<const FileDescriptor>(Open(flags)), pool_);
  }
  // Locks as a local program does.
  bool Lock(short type, off_t start, off_t length) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = length;
    return ::fcntl(program_.get(), F_OFD_SETLK, &lock) == 0;
  }

  const std::string path_ = MakeDirectory();
  const FileDescriptor program_ = Open();
  Workers pool_{1};
  std::unique_ptr<OfdLocks> ours_ = MakeLocks();
  std::unique_ptr<OfdLocks> others_ = MakeLocks();

 private:
  static std::string MakeDirectory() {
    std::string name = "/var/tmp/penstock-test-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST_F(OfdLocksTest, ExcludesLocalProgramsFromTheLockedRange) {
  EXPECT_FALSE(ours_->Lock(10, 19, true));
  EXPECT_FALSE(Lock(F_RDLCK, 15, 1));
  EXPECT_TRUE(Lock(F_WRLCK, 0, 10));
  EXPECT_TRUE(Lock(F_WRLCK, 20, 0));
}

TEST_F(OfdLocksTest, ReportsTheLockOfALocalProgram) {
  ASSERT_TRUE(Lock(F_WRLCK, 100, 50));
  const auto conflict = ours_->Lock(120, UINT64_MAX, false);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->first, 100u);
  EXPECT_EQ(conflict->last, 149u);
  EXPECT_TRUE(conflict->exclusive);
  EXPECT_TRUE(ours_->Test(149, 149, false));
  EXPECT_FALSE(ours_->Test(150, 150, true));
  EXPECT_FALSE(ours_->Lock(150, UINT64_MAX, true));
}

// The process has a lock of the older kind (F_SETLK), which belongs to a process.
TEST_F(OfdLocksTest, ReportsTheProcessOfAPosixLock) {
  int ready[2], done[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(done, O_CLOEXEC), 0);
  const pid_t process = ::fork();
  char octet = 0;
  if (process == 0) {
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_len = 10;
    octet = ::fcntl(program_.get(), F_SETLK, &lock) == 0;
    (void)!::write(ready[1], &octet, 1);
    (void)!::read(done[0], &octet, 1);
    ::_exit(0);
  }
  ASSERT_EQ(::read(ready[0], &octet, 1), 1);
  ASSERT_EQ(octet, 1);
  const auto conflict = ours_->Lock(5, 5, false);
  ASSERT_EQ(::write(done[1], &octet, 1), 1);
  ::waitpid(process, nullptr, 0);
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->process, static_cast<uint64_t>(process));
  EXPECT_EQ(conflict->last, 9u);
}

TEST_F(OfdLocksTest, DistinguishesOwners) {
  EXPECT_FALSE(ours_->Lock(0, 9, false));
  EXPECT_FALSE(others_->Lock(0, 9, false));
  EXPECT_FALSE(Lock(F_WRLCK, 5, 1));
  ours_->Unlock(0, UINT64_MAX);
  EXPECT_FALSE(Lock(F_WRLCK, 5, 1)) << "the other owner still has a lock";
  others_->Unlock(5, 5);
  EXPECT_TRUE(Lock(F_WRLCK, 5, 1));
  EXPECT_FALSE(Lock(F_WRLCK, 4, 1));
}

TEST_F(OfdLocksTest, ReleasesAllLocksAtItsEnd) {
  EXPECT_FALSE(ours_->Lock(0, UINT64_MAX, true));
  EXPECT_FALSE(Lock(F_RDLCK, 1, 1));
  ours_.reset();
  EXPECT_TRUE(Lock(F_RDLCK, 1, 1));
}

// Local programs cannot lock offsets beyond the largest one either.
TEST_F(OfdLocksTest, SkipsRangesBeyondTheLargestOffset) {
  EXPECT_FALSE(ours_->Lock(uint64_t{1} << 63, UINT64_MAX, true));
  EXPECT_FALSE(ours_->Lock(INT64_MAX, uint64_t{1} << 63, true));
  EXPECT_FALSE(Lock(F_RDLCK, INT64_MAX, 1));
}

// The server may only read the file.
TEST_F(OfdLocksTest, ExcludesOnlyWritersFromAFileThatIsOpenForReading) {
  const auto read_only = MakeLocks(O_RDONLY);
  EXPECT_FALSE(read_only->CanExclude());
  EXPECT_TRUE(ours_->CanExclude());
  EXPECT_FALSE(read_only->Lock(0, 9, true));
  EXPECT_FALSE(Lock(F_WRLCK, 0, 10));
  EXPECT_FALSE(read_only->Lock(0, 19, true)) << "an owner does not conflict with itself";
  EXPECT_TRUE(Lock(F_RDLCK, 20, 10));
  EXPECT_TRUE(read_only->Lock(25, 29, true)) << "a reader conflicts with an exclusive lock";
  EXPECT_FALSE(read_only->Lock(25, 29, false));
}

}  // namespace
}  // namespace penstock::fs::posix
