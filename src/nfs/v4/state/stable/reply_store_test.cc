// Tests both reply stores with one suite, and the store in files with another one.
#include "nfs/v4/state/stable/reply_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nfs/v4/state/stable/reply_record.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

SessionId Session(uint8_t number) {
  SessionId id{};
  id[0] = std::byte{0xab};
  id[15] = std::byte{number};
  return id;
}

constexpr ReplyRoom kRoom{.slots = 4, .reply = 1000, .items = 2};

class ReplyStoreTest : public testing::TestWithParam<const char*> {
 protected:
  ReplyStoreTest() {
    if (!in_memory()) {
      std::string name = testing::TempDir() + "/replies.XXXXXX";
      EXPECT_TRUE(::mkdtemp(name.data()));
      path_ = name;
    }
    saved_ = Start();
  }
  ~ReplyStoreTest() override {
    store_.reset();
    if (!in_memory()) std::filesystem::remove_all(path_);
  }
  bool in_memory() const { return std::string_view(GetParam()) == "memory"; }
  std::filesystem::path directory() const { return path_ / "sessions"; }
  std::filesystem::path file() const { return *std::filesystem::directory_iterator(directory()); }

  // Starts or restarts the server.
  std::vector<SavedSession> Start() {
    if (in_memory()) {
      if (!store_) store_ = std::make_unique<MemoryReplyStore>();
    } else {
      store_.reset();
      auto opened = OpenReplyStore(directory().string());
      EXPECT_TRUE(opened);
      store_ = *std::move(opened);
    }
    return store_->Load();
  }

  KeptReply Reply(uint32_t sequence, std::string_view text, const std::vector<std::string_view>& payloads = {}) {
    KeptReply reply{.sequence = SequenceId(sequence), .digest = 0x1122'3344'5566'7788};
    reply.results = xdr::Message::Whole(Slice::Borrowed(AsBytes(text)));
    size_t offset = 4;
    for (const std::string_view each : payloads) {
      reply.results.items.push_back({offset, Slice::Borrowed(AsBytes(each))});
      offset += 4;
    }
    return reply;
  }
  static std::string TextOf(const KeptReply& reply) {
    BufferPool pool;
    const Slice whole = xdr::Unreduce(pool, reply.results);
    return std::string(AsText(whole.bytes()));
  }

  std::filesystem::path path_;
  std::unique_ptr<ReplyStore> store_;
  std::vector<SavedSession> saved_;
};

INSTANTIATE_TEST_SUITE_P(Stores, ReplyStoreTest, testing::Values("memory", "files"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ReplyStoreTest, HasNoSessionsAtFirst) { EXPECT_THAT(saved_, IsEmpty()); }

TEST_P(ReplyStoreTest, KeptReplySurvivesARestart) {
  const auto session = store_->Create(Session(1), kRoom);
  ASSERT_TRUE(session);
  EXPECT_TRUE(session->Keep(SlotId(2), Reply(7, "results."), true));
  const auto saved = Start();
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].id, Session(1));
  ASSERT_THAT(saved[0].slots, SizeIs(4));
  EXPECT_FALSE(saved[0].slots[0] || saved[0].slots[1] || saved[0].slots[3]);
  ASSERT_TRUE(saved[0].slots[2]);
  EXPECT_EQ(saved[0].slots[2]->sequence, SequenceId(7));
  EXPECT_EQ(saved[0].slots[2]->digest, 0x1122'3344'5566'7788u);
  EXPECT_EQ(TextOf(*saved[0].slots[2]), "results.");
}

TEST_P(ReplyStoreTest, KeepsPayloadsBesideTheStream) {
  const auto session = store_->Create(Session(1), kRoom);
  ASSERT_TRUE(session->Keep(SlotId(0), Reply(1, "aaaabbbbcccc", {"data", ""}), false));
  const auto saved = Start();
  const KeptReply& kept = saved.at(0).slots.at(0).value();
  ASSERT_THAT(kept.results.items, SizeIs(2));
  EXPECT_EQ(kept.results.items[0].offset, 4u);
  EXPECT_EQ(AsText(kept.results.items[0].data.bytes()), "data");
  EXPECT_EQ(kept.results.items[1].offset, 8u);
  EXPECT_TRUE(kept.results.items[1].data.empty());
  EXPECT_EQ(TextOf(kept), "aaaadatabbbbcccc");
}

TEST_P(ReplyStoreTest, NextReplyReplacesTheLastOne) {
  const auto session = store_->Create(Session(1), kRoom);
  EXPECT_TRUE(session->Keep(SlotId(0), Reply(1, std::string(900, 'x')), false));
  EXPECT_TRUE(session->Keep(SlotId(0), Reply(2, "ok.."), false));
  const auto saved = Start();
  EXPECT_EQ(saved.at(0).slots.at(0)->sequence, SequenceId(2));
  EXPECT_EQ(TextOf(*saved.at(0).slots.at(0)), "ok..");
}

TEST_P(ReplyStoreTest, HasTheRequestedRoomInEverySlot) {
  const auto session = store_->Create(Session(1), kRoom);
  const std::string text(600, 'a'), payload(200, 'b');
  for (uint32_t slot = 0; slot < kRoom.slots; ++slot) {
    ASSERT_TRUE(session->Keep(SlotId(slot), Reply(slot + 1, text, {payload, payload}), false));
  }
  const auto saved = Start();
  for (uint32_t slot = 0; slot < kRoom.slots; ++slot) {
    EXPECT_EQ(saved.at(0).slots.at(slot).value().sequence, SequenceId(slot + 1));
    EXPECT_EQ(TextOf(*saved[0].slots[slot]).size(), kRoom.reply);
  }
}

TEST_P(ReplyStoreTest, SessionsAreIndependent) {
  const auto one = store_->Create(Session(1), kRoom), two = store_->Create(Session(2), kRoom);
  EXPECT_TRUE(one->Keep(SlotId(0), Reply(1, "one."), false));
  EXPECT_TRUE(two->Keep(SlotId(0), Reply(1, "two."), false));
  one->Remove();
  const auto saved = Start();
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].id, Session(2));
  EXPECT_EQ(TextOf(*saved[0].slots[0]), "two.");
}

TEST_P(ReplyStoreTest, RemovesADeadSession) {
  store_->Create(Session(1), kRoom);
  const auto saved = Start();
  saved.at(0).storage->Remove();
  EXPECT_THAT(Start(), IsEmpty());
}

TEST_P(ReplyStoreTest, LoadedRepliesOutliveTheStore) {
  const auto session = store_->Create(Session(1), kRoom);
  EXPECT_TRUE(session->Keep(SlotId(0), Reply(1, "abcd"), false));
  const auto saved = Start();
  store_.reset();
  EXPECT_EQ(TextOf(*saved.at(0).slots.at(0)), "abcd");
}

class ReplyFilesTest : public ReplyStoreTest {};
INSTANTIATE_TEST_SUITE_P(Stores, ReplyFilesTest, testing::Values("files"));

// The checksum covers every octet of a record, so a record that was written in part before a power failure is invalid.
TEST_P(ReplyFilesTest, IgnoresATornReply) {
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

TEST_P(ReplyFilesTest, RemovesAnUnfinishedFile) {
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
TEST_P(ReplyFilesTest, RefusesDamagedAndForeignFiles) {
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

TEST_P(ReplyFilesTest, RefusesAFileWithTheNameOfAnotherSession) {
  store_->Create(Session(1), kRoom);
  std::filesystem::rename(file(), directory() / std::string(32, '0'));
  const auto opened = OpenReplyStore(directory().string());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("another session"));
}

TEST_P(ReplyFilesTest, GivesOtherUsersNoAccess) {
  store_->Create(Session(1), kRoom);
  EXPECT_EQ(std::filesystem::status(file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_P(ReplyFilesTest, CreateFailsWithoutADirectory) {
  std::filesystem::remove_all(directory());
  EXPECT_FALSE(store_->Create(Session(1), kRoom));
}

// Otherwise many sessions could fill the disk, and the recovery store could record no further client.
TEST_P(ReplyFilesTest, LeavesDiskSpaceForTheRecoveryStore) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("small", path_.c_str(), "tmpfs", 0, "size=20m") != 0) {
    GTEST_SKIP() << "needs to be root";
  }
  auto store = OpenReplyStore((path_ / "sessions").string());
  ASSERT_TRUE(store);
  const ReplyRoom room{.slots = 64, .reply = 8192, .items = 1};
  uint8_t made = 0;
  while (made < 100 && (*store)->Create(Session(made), room)) ++made;
  EXPECT_GT(made, 2);
  EXPECT_GE(std::filesystem::space(path_).available, 16u << 20);
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(path_ / "sessions")), made);
  store->reset();
  ::umount(path_.c_str());
}

TEST_P(ReplyFilesTest, ReportsADirectoryThatCannotBeCreated) {
  const auto opened = OpenReplyStore((path_ / "none" / "sessions").string());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("cannot use"));
}

}  // namespace
}  // namespace penstock::nfs::v4
