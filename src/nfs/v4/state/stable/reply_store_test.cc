// Tests the reply stores in files and in memory with one suite, and the store in files with another one.
#include "nfs/v4/state/stable/reply_store.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/test_temporary_directory.h"
#include "nfs/v4/state/stable/reply_record.h"
#include "nfs/v4/state/stable/reply_store_suite.h"

namespace penstock::nfs::v4::suite {
namespace {

class MemoryHome : public ReplyHome {
 public:
  std::shared_ptr<ReplyStore> Open() override { return store_; }

 private:
  const std::shared_ptr<ReplyStore> store_ = std::make_shared<MemoryReplyStore>();
};

class FilesHome : public ReplyHome {
 public:
  std::filesystem::path path() const { return directory_.path(); }
  std::shared_ptr<ReplyStore> Open() override {
    auto opened = OpenReplyStore((path() / "sessions").string());
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }

 private:
  const TemporaryDirectory directory_;
};

class ReplyFilesTest : public ReplySteps, public testing::Test {
 protected:
  ReplyFilesTest() : ReplySteps(std::make_unique<FilesHome>()) {}
  std::filesystem::path path() const { return static_cast<const FilesHome&>(*home_).path(); }
  std::filesystem::path directory() const { return path() / "sessions"; }
  std::filesystem::path file() const { return *std::filesystem::directory_iterator(directory()); }
};

// The checksum covers every octet of a record, so a record that was written in part before a power failure is invalid.
TEST_F(ReplyFilesTest, IgnoresATornReply) {
  const KeptReply reply = Reply(1, "aaaabbbb", {"data"});
  const size_t size = ReplyRecord::Serialize(reply).size();
  const auto session = store_->Create(Session(1), kRoom);
  for (size_t i = 0; i < size; ++i) {
    ASSERT_TRUE(session->Keep(SlotId(0), reply, false));
    {
      std::fstream octets(file(), std::ios::binary | std::ios::in | std::ios::out);
      octets.seekg(static_cast<std::streamoff>(4096 + i));
      const auto octet = static_cast<char>(octets.get() ^ 1);
      octets.seekp(static_cast<std::streamoff>(4096 + i));
      octets.put(octet);
    }
    const auto saved = Start();
    ASSERT_THAT(saved, SizeIs(1));
    EXPECT_FALSE(saved[0].slots[0]) << i;
  }
}

TEST_F(ReplyFilesTest, RemovesAnUnfinishedFile) {
  store_->Create(Session(1), kRoom);
  std::filesystem::resize_file(file(), 20);
  EXPECT_THAT(Start(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
  // This file has its full size, but no head.
  store_->Create(Session(1), kRoom);
  std::filesystem::resize_file(file(), 0);
  std::filesystem::resize_file(file(), 8192);
  EXPECT_THAT(Start(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

// Clients rely on the kept replies, so the store reports a damaged or foreign file and does not delete it.
TEST_F(ReplyFilesTest, RefusesDamagedAndForeignFiles) {
  store_->Create(Session(1), kRoom);
  const auto refusal = [this] {
    store_.reset();
    const auto opened = OpenReplyStore(directory().string());
    return opened ? "" : opened.error().message;
  };
  const auto put = [this](std::streamoff at, std::string_view octets) {
    std::fstream(file(), std::ios::binary | std::ios::in | std::ios::out).seekp(at) << octets;
  };
  ASSERT_EQ(refusal(), "");
  put(12, "x");
  EXPECT_THAT(refusal(), testing::HasSubstr(file().string() + " is damaged (its head is garbled)"));
  put(0, "pnstrp9");
  EXPECT_THAT(refusal(), testing::HasSubstr("another version"));
  put(0, "SQLite format 3");
  EXPECT_THAT(refusal(), testing::HasSubstr("not a file of penstock's"));
  std::filesystem::remove(file());
  std::ofstream(directory() / "something") << "else";
  EXPECT_THAT(refusal(), testing::HasSubstr((directory() / "something").string()));
  EXPECT_TRUE(std::filesystem::exists(directory() / "something"));
  std::filesystem::remove(file());
  std::filesystem::create_directory(directory() / std::string(32, '0'));
  EXPECT_THAT(refusal(), testing::HasSubstr(std::string(32, '0')));
}

TEST_F(ReplyFilesTest, RefusesAFileWithTheNameOfAnotherSession) {
  store_->Create(Session(1), kRoom);
  std::filesystem::rename(file(), directory() / std::string(32, '0'));
  const auto opened = OpenReplyStore(directory().string());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("another session"));
}

TEST_F(ReplyFilesTest, GivesOtherUsersNoAccess) {
  store_->Create(Session(1), kRoom);
  EXPECT_EQ(std::filesystem::status(file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ReplyFilesTest, CreateFailsWithoutADirectory) {
  std::filesystem::remove_all(directory());
  EXPECT_FALSE(store_->Create(Session(1), kRoom));
}

// Otherwise many sessions could fill the disk, and the recovery store could record no further client.
TEST_F(ReplyFilesTest, LeavesDiskSpaceForTheRecoveryStore) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("small", path().c_str(), "tmpfs", 0, "size=20m") != 0) {
    GTEST_SKIP() << "needs to be root";
  }
  auto store = OpenReplyStore((path() / "sessions").string());
  ASSERT_TRUE(store);
  const ReplyRoom room{.slots = 64, .reply = 8192, .items = 1};
  uint8_t made = 0;
  while (made < 100 && (*store)->Create(Session(made), room)) ++made;
  EXPECT_GT(made, 2);
  EXPECT_GE(std::filesystem::space(path()).available, 16u << 20);
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(path() / "sessions")), made);
  store->reset();
  ::umount(path().c_str());
}

TEST_F(ReplyFilesTest, ReportsADirectoryThatCannotBeCreated) {
  const auto opened = OpenReplyStore((path() / "none" / "sessions").string());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("cannot use"));
}

}  // namespace

PENSTOCK_REPLY_STORE_SUITE(Stores,
                           testing::Values(ReplyParameter{"memory", [] { return std::make_unique<MemoryHome>(); }},
                                           ReplyParameter{"files", [] { return std::make_unique<FilesHome>(); }}));

}  // namespace penstock::nfs::v4::suite
