#include "cli/local_target.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "base/failing_disk.h"

namespace penstock::cli {
namespace {

using std::filesystem::path;

class LocalTargetTest : public testing::Test {
 protected:
  LocalTargetTest() {
    char name[] = "/var/tmp/penstock-target-test-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~LocalTargetTest() override { std::filesystem::remove_all(folder); }

  static void Write(const path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  static std::string Read(const path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return std::move(text).str();
  }
  static void Fill(const LocalTarget& target, std::string_view text) {
    EXPECT_EQ(::pwrite(target.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  static struct stat StatusOf(const path& file) {
    struct stat status{};
    EXPECT_EQ(::lstat(file.c_str(), &status), 0) << file;
    return status;
  }
  // Opens `to`, writes `text` to it, and commits. Returns the error message, or nothing.
  static std::string Replace(const path& to, std::string_view text, bool in_place = false) {
    LocalTarget target(to, 0640, in_place);
    const auto opened = target.Open();
    if (!opened) return opened.error().message;
    Fill(target, text);
    const auto committed = target.Commit();
    return committed ? "" : committed.error().message;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }

  path folder;
};

// The process runs as another user than root while this lives, because root has every permission.
class AsNobody {
 public:
  AsNobody() : is_root_(::geteuid() == 0) {
    if (is_root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~AsNobody() {
    if (is_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  const bool is_root_;
};

using Set = std::set<std::string>;

TEST_F(LocalTargetTest, ANewFileAppearsWhenItIsCommitted) {
  const mode_t before = ::umask(022);
  LocalTarget target(folder / "new", 0666, false);
  ASSERT_TRUE(target.Open());
  Fill(target, "text");
  EXPECT_FALSE(Names().contains("new"));
  ASSERT_TRUE(target.Commit());
  ::umask(before);
  EXPECT_EQ(Names(), (Set{"new"}));
  EXPECT_EQ(Read(folder / "new"), "text");
  EXPECT_EQ(StatusOf(folder / "new").st_mode & 07777, 0644u);
}

TEST_F(LocalTargetTest, SyncsTheNewFileBeforeReplacingTheOldOne) {
  Write(folder / "file", "old");
  FailingDisk disk;
  LocalTarget target(folder / "file", 0640, false);
  ASSERT_TRUE(target.Open());
  Fill(target, "new");
  disk.Fail({.call = DiskCall::kSync, .path = "/proc/self/fd/" + std::to_string(target.fd()), .error = EIO});
  EXPECT_FALSE(target.Commit());
  EXPECT_EQ(Read(folder / "file"), "old");
}

TEST_F(LocalTargetTest, KeepsTheOldFileWithoutACommit) {
  Write(folder / "file", "old");
  {
    LocalTarget target(folder / "file", 0644, false);
    ASSERT_TRUE(target.Open());
    Fill(target, "half of the new one");
    EXPECT_EQ(Read(folder / "file"), "old");
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_EQ(Names(), (Set{"file"}));
  EXPECT_EQ(Read(folder / "file"), "old");
}

TEST_F(LocalTargetTest, OpenFailsAfterDiscardAndLeavesNoFile) {
  LocalTarget target(folder / "file", 0644, false);
  target.Discard();
  EXPECT_FALSE(target.Open());
  EXPECT_EQ(Names(), Set());
}

TEST_F(LocalTargetTest, CommitFailsAfterDiscard) {
  Write(folder / "file", "old");
  LocalTarget target(folder / "file", 0644, false);
  ASSERT_TRUE(target.Open());
  target.Discard();
  EXPECT_FALSE(target.Commit());
  EXPECT_EQ(Names(), (Set{"file"}));
  EXPECT_EQ(Read(folder / "file"), "old");
}

TEST_F(LocalTargetTest, TheNewFileGetsOwnerAndModeOfTheOldOne) {
  Write(folder / "file", "a longer old text");
  ASSERT_EQ(::chmod((folder / "file").c_str(), 04604), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((folder / "file").c_str(), 1234, 1235), 0);
  }
  const struct stat before = StatusOf(folder / "file");
  ASSERT_EQ(Replace(folder / "file", "new"), "");
  const struct stat after = StatusOf(folder / "file");
  EXPECT_EQ(Read(folder / "file"), "new");
  EXPECT_EQ(after.st_mode & 07777, 0604u) << "the new file does not get the set-user-ID bit";
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
}

// With an access control list, the group bits of the mode are the mask of the list. Without the list, they would give
// those rights to the group.
TEST_F(LocalTargetTest, TheNewFileGetsTheAccessControlListOfTheOldOne) {
  // Version 2: the owner rw-, user 1234 rw-, the group ---, the mask rw-, others ---.
  const std::array<uint8_t, 44> list = {2, 0,    0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  6,
                                        0, 0xd2, 4,   0,   0,   4,   0,  0, 0,   255, 255, 255, 255, 16, 0,
                                        6, 0,    255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255};
  constexpr char kName[] = "system.posix_acl_access";
  Write(folder / "file", "old");
  if (::setxattr((folder / "file").c_str(), kName, list.data(), list.size(), 0) != 0) {
    GTEST_SKIP() << "no access control lists in " << folder;
  }
  ASSERT_EQ(Replace(folder / "file", "new"), "");
  EXPECT_EQ(Read(folder / "file"), "new");
  std::array<uint8_t, 100> got{};
  EXPECT_EQ(::getxattr((folder / "file").c_str(), kName, got.data(), got.size()), static_cast<ssize_t>(list.size()));
  EXPECT_TRUE(std::equal(list.begin(), list.end(), got.begin()));
}

TEST_F(LocalTargetTest, ReplacesTheTargetOfASymbolicLink) {
  std::filesystem::create_directory(folder / "there");
  Write(folder / "there" / "file", "old");
  std::filesystem::create_symlink("there/file", folder / "link");
  std::filesystem::create_symlink(folder / "link", folder / "second");
  std::filesystem::create_symlink("there/new", folder / "dangling");
  ASSERT_EQ(Replace(folder / "second", "new"), "");
  ASSERT_EQ(Replace(folder / "dangling", "newer"), "");
  EXPECT_EQ(Read(folder / "there" / "file"), "new");
  EXPECT_EQ(Read(folder / "there" / "new"), "newer");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "second"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "dangling"));
  EXPECT_EQ(Names(), (Set{"there", "link", "second", "dangling"}));
}

TEST_F(LocalTargetTest, WritesIntoPipesAndDevices) {
  LocalTarget null("/dev/null", 0644, false);
  ASSERT_TRUE(null.Open());
  EXPECT_TRUE(null.is_stream());
  EXPECT_TRUE(null.Commit());
  EXPECT_TRUE(S_ISCHR(StatusOf("/dev/null").st_mode));

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = Read(folder / "pipe"); });
  {
    LocalTarget pipe(folder / "pipe", 0644, false);
    const auto opened = pipe.Open();
    EXPECT_TRUE(opened);
    EXPECT_TRUE(pipe.is_stream());
    EXPECT_EQ(::write(pipe.fd(), "text", 4), 4);
    EXPECT_TRUE(pipe.Commit());
  }
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(S_ISFIFO(StatusOf(folder / "pipe").st_mode));
}

// For example /dev/stdout redirected to a file: other processes have the file open and continue to write to it.
TEST_F(LocalTargetTest, WritesIntoAnOpenDescriptor) {
  Write(folder / "file", "old");
  const FileDescriptor open(::open((folder / "file").c_str(), O_RDWR | O_CLOEXEC));
  const ino_t before = StatusOf(folder / "file").st_ino;
  const path name = "/proc/self/fd/" + std::to_string(open.get());
  std::filesystem::create_symlink(name, folder / "link");
  ASSERT_EQ(Replace(folder / "link", "new"), "");
  EXPECT_EQ(Read(folder / "file"), "new");
  EXPECT_EQ(StatusOf(folder / "file").st_ino, before);
}

TEST_F(LocalTargetTest, WritesInPlaceIntoTheSameFile) {
  Write(folder / "file", "old");
  std::filesystem::create_hard_link(folder / "file", folder / "other name");
  ASSERT_EQ(Replace(folder / "file", "new", true), "");
  EXPECT_EQ(Read(folder / "other name"), "new");
  ASSERT_EQ(Replace(folder / "made", "new", true), "");
  EXPECT_EQ(Names(), (Set{"file", "made", "other name"}));
}

TEST_F(LocalTargetTest, SuggestsInPlaceIfTheDirectoryIsNotWritable) {
  Write(folder / "file", "old");
  ASSERT_EQ(::chmod((folder / "file").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  {
    const AsNobody nobody;
    const std::string refused = Replace(folder / "file", "new");
    EXPECT_NE(refused.find(folder / "file"), std::string::npos) << refused;
    EXPECT_NE(refused.find("--in-place"), std::string::npos) << refused;
    EXPECT_EQ(Read(folder / "file"), "old");
    EXPECT_EQ(Replace(folder / "file", "new", true), "");
    EXPECT_NE(Replace(folder / "another", "new"), "");
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(Read(folder / "file"), "new");
  EXPECT_EQ(Names(), (Set{"file"}));
}

TEST_F(LocalTargetTest, DoesNotReplaceAFileThatIsNotWritable) {
  Write(folder / "file", "old");
  ASSERT_EQ(::chmod((folder / "file").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  {
    const AsNobody nobody;
    EXPECT_NE(Replace(folder / "file", "new").find(folder / "file"), std::string::npos);
  }
  EXPECT_EQ(Read(folder / "file"), "old");
  EXPECT_EQ(Names(), (Set{"file"}));
}

// A replaced file would belong to the user who replaces it.
TEST_F(LocalTargetTest, DoesNotReplaceAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to give a file away";
  Write(folder / "file", "old");
  ASSERT_EQ(::chown((folder / "file").c_str(), 1234, 1234), 0);
  ASSERT_EQ(::chmod((folder / "file").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  {
    const AsNobody nobody;
    EXPECT_NE(Replace(folder / "file", "new").find("--in-place"), std::string::npos);
    EXPECT_EQ(Read(folder / "file"), "old");
    EXPECT_EQ(Replace(folder / "file", "new", true), "");
  }
  EXPECT_EQ(Names(), (Set{"file"}));
}

TEST_F(LocalTargetTest, ErrorsNameThePath) {
  Write(folder / "file", "");
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const path& wrong : {folder / "no" / "such", folder / "file" / "below", folder / "new" / "", folder / "loop"}) {
    const std::string refused = Replace(wrong, "text");
    EXPECT_EQ(refused.find(wrong.native()), 0u) << refused;
  }
  EXPECT_EQ(Replace(folder / std::string(255, 'x'), "text"), "") << "the longest possible name";
}

}  // namespace
}  // namespace penstock::cli
