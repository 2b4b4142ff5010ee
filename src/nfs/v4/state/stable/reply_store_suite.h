// What every reply store does. A test program instantiates the suite with PENSTOCK_REPLY_STORE_SUITE.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nfs/v4/state/stable/reply_store.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4::suite {

using testing::IsEmpty;
using testing::SizeIs;

// What keeps the replies from one run of a server to the next.
class ReplyHome {
 public:
  virtual ~ReplyHome() = default;
  // Opens the store for another run. That of the run before is gone.
  virtual std::shared_ptr<ReplyStore> Open() = 0;
};

inline SessionId Session(uint8_t number) {
  SessionId id{};
  id[0] = std::byte{0xab};
  id[15] = std::byte{number};
  return id;
}

inline constexpr ReplyRoom kRoom{.slots = 4, .reply = 1000, .items = 2};

// A server with a reply store.
class ReplySteps {
 protected:
  explicit ReplySteps(std::unique_ptr<ReplyHome> home) : home_(std::move(home)) { saved_ = Start(); }

  // Starts or restarts the server.
  std::vector<SavedSession> Start() {
    store_.reset();
    store_ = home_->Open();
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

  const std::unique_ptr<ReplyHome> home_;
  std::shared_ptr<ReplyStore> store_;
  std::vector<SavedSession> saved_;
};

struct ReplyParameter {
  const char* name;
  std::function<std::unique_ptr<ReplyHome>()> make;
};

class ReplyStoreTest : public ReplySteps, public testing::TestWithParam<ReplyParameter> {
 protected:
  ReplyStoreTest() : ReplySteps(GetParam().make()) {}
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReplyStoreTest);

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

}  // namespace penstock::nfs::v4::suite

// Once in a program, in namespace penstock::nfs::v4::suite.
#define PENSTOCK_REPLY_STORE_SUITE(prefix, ...)                 \
  INSTANTIATE_TEST_SUITE_P(prefix, ReplyStoreTest, __VA_ARGS__, \
                           [](const auto& test) { return std::string(test.param.name); })
