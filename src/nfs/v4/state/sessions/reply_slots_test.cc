#include "nfs/v4/state/sessions/reply_slots.h"

#include <gtest/gtest.h>

#include "base/buffer.h"

namespace penstock::nfs::v4 {
namespace {

using Outcome = ReplySlots::Outcome;

class ReplySlotsTest : public testing::Test {
 protected:
  Result<ReplySlots::Started, nfs4::nfsstat4> Start(uint32_t slot, uint32_t sequence, uint32_t highest = 0,
                                                    uint64_t digest = 0) {
    return table_.Start({SlotId(slot), SequenceId(sequence), SlotId(std::max(slot, highest)), digest});
  }
  nfs4::nfsstat4 Refusal(uint32_t slot, uint32_t sequence, uint32_t highest = 0, uint64_t digest = 0) {
    const auto started = Start(slot, sequence, highest, digest);
    return started ? nfs4::NFS4_OK : started.error();
  }
  void Finish(uint32_t slot, uint32_t sequence) { table_.Finish(SlotId(slot), SequenceId(sequence), std::nullopt); }
  // Executes one request.
  void Run(uint32_t slot, uint32_t sequence, uint32_t highest = 0) {
    const auto started = Start(slot, sequence, highest);
    ASSERT_TRUE(started);
    ASSERT_EQ(started->outcome, Outcome::kRun);
    Finish(slot, sequence);
  }
  xdr::Message Reply(std::string_view text) {
    BufferRef buffer = pool_.Allocate(text.size());
    CopyBytes(buffer->bytes(), AsBytes(text));
    const ConstBytes bytes(buffer->data(), text.size());
    return xdr::Message::Whole(Slice(std::move(buffer), bytes));
  }

  BufferPool pool_;
  ReplySlots table_{4};
};

TEST_F(ReplySlotsTest, RunsRequestsInSequence) {
  Run(0, 1);
  Run(0, 2);
  Run(3, 1);
  Run(0, 3);
}

TEST_F(ReplySlotsTest, FirstSequenceIdOfASlotIsOne) {
  EXPECT_EQ(Refusal(0, 0), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(Refusal(0, 2), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(Refusal(0, 0xffffffff), nfs4::NFS4ERR_SEQ_MISORDERED);
  Run(0, 1);
}

TEST_F(ReplySlotsTest, MisorderedRequestLeavesTheSlotUnchanged) {
  Run(0, 1);
  Run(0, 2);
  EXPECT_EQ(Refusal(0, 4), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(Refusal(0, 1), nfs4::NFS4ERR_SEQ_MISORDERED);
  Run(0, 3);
}

TEST_F(ReplySlotsTest, SequenceIdsWrapAround) {
  table_ = ReplySlots(1, SequenceId(0xfffffffe));
  Run(0, 0xffffffff);
  EXPECT_EQ(Refusal(0, 1), nfs4::NFS4ERR_SEQ_MISORDERED);
  Run(0, 0);
  EXPECT_EQ(Start(0, 0)->outcome, Outcome::kUncached);
  Run(0, 1);
}

TEST_F(ReplySlotsTest, RetryGetsTheKeptReply) {
  ASSERT_TRUE(Start(2, 1));
  table_.Finish(SlotId(2), SequenceId(1), Reply("done"));
  for (int i = 0; i < 2; ++i) {
    const auto again = Start(2, 1);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->outcome, Outcome::kReplay);
    EXPECT_EQ(AsText(again->reply.stream.bytes()), "done");
  }
  EXPECT_EQ(table_.busy(), 0u);
}

TEST_F(ReplySlotsTest, RetryWithoutAKeptReplyIsUncached) {
  Run(0, 1);
  const auto again = Start(0, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->outcome, Outcome::kUncached);
}

TEST_F(ReplySlotsTest, NextRequestDropsTheKeptReply) {
  ASSERT_TRUE(Start(0, 1));
  table_.Finish(SlotId(0), SequenceId(1), Reply("first"));
  ASSERT_TRUE(Start(0, 2));
  EXPECT_EQ(Refusal(0, 1), nfs4::NFS4ERR_SEQ_MISORDERED);
  Finish(0, 2);
  EXPECT_EQ(pool_.outstanding(), 0u);
}

TEST_F(ReplySlotsTest, RetryOfARunningRequestGetsDelay) {
  ASSERT_TRUE(Start(0, 1));
  EXPECT_EQ(Refusal(0, 1), nfs4::NFS4ERR_DELAY);
  EXPECT_EQ(Refusal(0, 2), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(table_.busy(), 1u);
  Finish(0, 1);
  EXPECT_EQ(Start(0, 1)->outcome, Outcome::kUncached);
}

TEST_F(ReplySlotsTest, DifferentRequestWithTheSameSequenceIdIsAFalseRetry) {
  ASSERT_TRUE(Start(0, 1, 0, /*digest=*/17));
  EXPECT_EQ(Refusal(0, 1, 0, 18), nfs4::NFS4ERR_DELAY) << "the first request is still running";
  table_.Finish(SlotId(0), SequenceId(1), Reply("done"));
  EXPECT_EQ(Refusal(0, 1, 0, 18), nfs4::NFS4ERR_SEQ_FALSE_RETRY);
  EXPECT_EQ(Start(0, 1, 0, 17)->outcome, Outcome::kReplay);
}

TEST_F(ReplySlotsTest, RefusesSlotsThatWereNeverGranted) {
  EXPECT_EQ(Refusal(4, 1), nfs4::NFS4ERR_BADSLOT);
  EXPECT_EQ(Refusal(0xffffffff, 1), nfs4::NFS4ERR_BADSLOT);
  EXPECT_EQ(Refusal(0, 1, /*highest=*/4), nfs4::NFS4ERR_BAD_HIGH_SLOT);
  Run(3, 1);
}

// RFC 8881 §2.10.6.1: slots are retained until the client shows that it knows of the new target.
TEST_F(ReplySlotsTest, SlotsAreRetiredOnceTheClientShowsThatItKnowsTheTarget) {
  Run(0, 1);
  Run(3, 1);
  table_.SetTarget(2);
  EXPECT_EQ(table_.target_highest(), SlotId(1));
  EXPECT_EQ(table_.highest(), SlotId(3));

  Run(0, 2);  // its reply carries the target, but the client sent the request before it saw the target
  EXPECT_EQ(table_.highest(), SlotId(3));
  Run(0, 3, /*highest=*/3);  // the client knows the target, but still has requests on higher slots
  EXPECT_EQ(table_.highest(), SlotId(3));
  Run(0, 4, /*highest=*/1);
  EXPECT_EQ(table_.highest(), SlotId(1));
  EXPECT_EQ(Refusal(3, 2), nfs4::NFS4ERR_BADSLOT);
  Run(1, 1);
}

TEST_F(ReplySlotsTest, RetryOnASlotBeyondTheTargetGetsTheKeptReply) {
  ASSERT_TRUE(Start(3, 1));
  table_.Finish(SlotId(3), SequenceId(1), Reply("late"));
  table_.SetTarget(1);
  Run(0, 1);
  EXPECT_EQ(Start(3, 1)->outcome, Outcome::kReplay);
}

TEST_F(ReplySlotsTest, BusySlotsAreNotRetired) {
  ASSERT_TRUE(Start(3, 1));
  table_.SetTarget(1);
  Run(0, 1);
  Run(0, 2);
  EXPECT_EQ(table_.highest(), SlotId(3));
  Finish(3, 1);
  Run(0, 3);
  EXPECT_EQ(table_.highest(), SlotId(0));
}

TEST_F(ReplySlotsTest, RetiredSlotsDropTheirReplies) {
  ASSERT_TRUE(Start(3, 1));
  table_.Finish(SlotId(3), SequenceId(1), Reply("large"));
  table_.SetTarget(1);
  Run(0, 1);
  Run(0, 2);
  EXPECT_EQ(pool_.outstanding(), 0u);
}

TEST_F(ReplySlotsTest, RestoredSlotMayStartAtSequenceIdOne) {
  for (uint32_t i = 1; i <= 5; ++i) Run(3, i);
  table_.SetTarget(1);
  Run(0, 1);
  Run(0, 2);
  ASSERT_EQ(table_.highest(), SlotId(0));
  table_.SetTarget(4);
  EXPECT_EQ(table_.highest(), SlotId(3));
  Run(3, 1);
}

TEST_F(ReplySlotsTest, RestoredSlotMayContinueItsSequence) {
  for (uint32_t i = 1; i <= 5; ++i) Run(3, i);
  table_.SetTarget(1);
  Run(0, 1);
  Run(0, 2);
  table_.SetTarget(4);
  EXPECT_EQ(Refusal(3, 5), nfs4::NFS4ERR_SEQ_MISORDERED);
  Run(3, 6);
}

TEST_F(ReplySlotsTest, TargetStaysWithinTheNegotiatedSlots) {
  table_.SetTarget(100);
  EXPECT_EQ(table_.target_highest(), SlotId(3));
  table_.SetTarget(0);
  EXPECT_EQ(table_.target_highest(), SlotId(0));
}

}  // namespace
}  // namespace penstock::nfs::v4
