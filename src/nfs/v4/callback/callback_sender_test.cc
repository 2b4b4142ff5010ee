// Tests of the calls that CallbackSender sends in sessions. callback_path_test.cc tests the paths to the clients.
#include "nfs/v4/callback/callback_sender.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/task.h"
#include "nfs/v4/callback/callback_sender_test.h"

namespace penstock::nfs::v4 {
namespace {

TEST_F(CallbackSenderTest, CallsOverTheBackchannelOfASession) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  OffloadDone();
  OffloadDone();
  ASSERT_EQ(channel->received.size(), 2u);
  EXPECT_EQ(channel->received[0].header.program, 0x40000005u);
  EXPECT_EQ(channel->received[0].head.minorversion, 1u);
  EXPECT_EQ(channel->received[0].sequence->csa_sessionid, session_);
  EXPECT_EQ(channel->received[0].sequence->csa_sequenceid, 1u);
  EXPECT_EQ(channel->received[1].sequence->csa_sequenceid, 2u);
  EXPECT_EQ(caller_.under_way(), 0u);
}

// RFC 8881 §2.10.6.2: the repeated call has the same slot and sequence number.
TEST_F(CallbackSenderTest, RepeatsAnUnansweredCallOverTheNextConnection) {
  const auto first = MakeChannel(Silent), second = MakeChannel(Good);
  Open(first);
  OffloadDone();
  first->Fail(rpc::CallError::kDisconnected);
  world_.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(caller_.under_way(), 1u);
  EXPECT_FALSE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
  Bind(second);
  world_.RunFor(std::chrono::seconds(2));
  ASSERT_EQ(second->received.size(), 1u);
  EXPECT_EQ(second->received[0].sequence, first->received[0].sequence);
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CallbackSenderTest, DoesNotUseAnUnansweringConnectionUntilItIsBoundAgain) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  OffloadDone();
  channel->Fail(rpc::CallError::kTimedOut);
  world_.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(channel->received.size(), 1u);
  Bind(channel);
  world_.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(channel->received.size(), 2u);
}

TEST_F(CallbackSenderTest, RepeatsACallInAnotherSessionIfItsSessionIsGone) {
  const auto first = MakeChannel(Silent), second = MakeChannel(Good);
  Open(first);
  OffloadDone();
  state_.Run([&](StateTables& state) {
    ASSERT_EQ(state.sessions.Destroy(session_, connections_, {}), NFS4_OK);
    AddSession(state, SequenceId(2), second);
  });
  first->Fail(rpc::CallError::kTimedOut);
  world_.RunFor(std::chrono::seconds(3));
  ASSERT_EQ(second->received.size(), 1u);
  EXPECT_EQ(second->received[0].sequence->csa_sequenceid, 1u);
}

TEST_F(CallbackSenderTest, RepeatsACallOnTheSameSlotAfterDelay) {
  int delays = 2;
  const auto channel = MakeChannel([&](const ReceivedCallback&) -> std::optional<CallbackReply> {
    return CallbackReply{.sequence = delays-- > 0 ? NFS4ERR_DELAY : NFS4_OK};
  });
  Open(channel);
  OffloadDone();
  world_.RunFor(std::chrono::seconds(5));
  ASSERT_EQ(channel->received.size(), 3u);
  EXPECT_EQ(channel->received[2].sequence, channel->received[0].sequence);
}

TEST_F(CallbackSenderTest, RepeatsACallIfTheClientDoesNotKnowTheStateidYet) {
  int unknown = 1;
  const auto channel = MakeChannel([&](const ReceivedCallback&) -> std::optional<CallbackReply> {
    return CallbackReply{.status = unknown-- > 0 ? NFS4ERR_BAD_STATEID : NFS4_OK};
  });
  Open(channel);
  OffloadDone();
  world_.RunFor(std::chrono::seconds(5));
  ASSERT_EQ(channel->received.size(), 2u);
  EXPECT_EQ(channel->received[1].sequence->csa_sequenceid, 2u);
}

TEST_F(CallbackSenderTest, DoesNotReuseASlotAfterSeqMisordered) {
  const auto channel = MakeChannel([](const ReceivedCallback& call) -> std::optional<CallbackReply> {
    return CallbackReply{.sequence = call.sequence->csa_slotid == 0 ? NFS4ERR_SEQ_MISORDERED : NFS4_OK};
  });
  Open(channel);
  OffloadDone();
  world_.RunFor(std::chrono::seconds(5));
  ASSERT_EQ(channel->received.size(), 2u);
  EXPECT_EQ(channel->received[1].sequence->csa_slotid, 1u);
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CallbackSenderTest, SendsNoMoreCallsThanTheClientHasSlots) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  for (int i = 0; i < 4; ++i) OffloadDone();
  EXPECT_EQ(channel->received.size(), 2u);
  EXPECT_EQ(channel->received[1].sequence->csa_highest_slotid, 1u);
  EXPECT_EQ(caller_.under_way(), 4u);
}

TEST_F(CallbackSenderTest, GivesUpACallAfterTheLeaseTime) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  OffloadDone();
  channel->Fail(rpc::CallError::kDisconnected);
  world_.RunFor(std::chrono::seconds(100));
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CallbackSenderTest, LimitsCallsUnderWay) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  for (int i = 0; i < 20; ++i) OffloadDone();
  EXPECT_EQ(caller_.under_way(), 8u);
}

TEST_F(CallbackSenderTest, RecallsADelegation) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  const stateid4 delegation = Delegate();
  caller_.Recall(client_, delegation, kFile, std::nullopt);
  ASSERT_EQ(channel->received.size(), 1u);
  EXPECT_EQ(channel->received[0].recall.stateid, delegation);
  EXPECT_FALSE(channel->received[0].recall.truncate);
  EXPECT_TRUE(channel->received[0].sequence->csa_referring_call_lists.empty());
  EXPECT_EQ(FileHandle::Parse(channel->received[0].recall.fh.bytes()), kFile);
  EXPECT_EQ(caller_.under_way(), 0u);
}

// RFC 8881 §2.10.6.3: the reference ends when the client has shown that it has the reply with the delegation.
TEST_F(CallbackSenderTest, ARecallRefersToTheRequestThatGaveTheDelegation) {
  const auto channel = MakeChannel([](const ReceivedCallback&) { return CallbackReply{.status = NFS4ERR_DELAY}; });
  Open(channel);
  const auto request = [&](uint32_t sequence) {
    state_.Run([&](StateTables& state) {
      const SEQUENCE4args arguments{session_, sequence, 1, 1, false};
      ASSERT_TRUE(state.sessions.StartRequest(arguments, {.size = 200, .operations = 3}, {connections_, channel},
                                              world_.Now()));
      state.sessions.FinishRequest(session_, SlotId(1), SequenceId(sequence), {}, world_.Now());
    });
  };
  request(1);
  caller_.Recall(client_, Delegate(), kFile, RequestName{session_, SlotId(1), SequenceId(1)});
  ASSERT_EQ(channel->received.size(), 1u);
  const auto& lists = channel->received[0].sequence->csa_referring_call_lists;
  ASSERT_EQ(lists.size(), 1u);
  EXPECT_EQ(lists[0].rcl_sessionid, session_);
  ASSERT_EQ(lists[0].rcl_referring_calls.size(), 1u);
  EXPECT_EQ(lists[0].rcl_referring_calls[0].rc_slotid, 1u);
  EXPECT_EQ(lists[0].rcl_referring_calls[0].rc_sequenceid, 1u);
  request(2);
  world_.RunFor(std::chrono::seconds(2));
  ASSERT_GE(channel->received.size(), 2u);
  EXPECT_TRUE(channel->received.back().sequence->csa_referring_call_lists.empty());
}

TEST_F(CallbackSenderTest, RepeatsARecallUntilTheDelegationIsGone) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  const stateid4 delegation = Delegate();
  channel->Fail(rpc::CallError::kDisconnected);
  caller_.Recall(client_, delegation, kFile, std::nullopt);
  world_.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(caller_.under_way(), 1u);
  state_.Run([&](StateTables& state) { state.files.ForgetClient(client_, Ending::kReleased, world_.Now()); });
  world_.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CallbackSenderTest, DoesNotRecallADelegationTwiceAtATime) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  const stateid4 delegation = Delegate();
  for (int i = 0; i < 3; ++i) caller_.Recall(client_, delegation, kFile, std::nullopt);
  EXPECT_EQ(channel->received.size(), 1u);
  EXPECT_EQ(caller_.under_way(), 1u);
}

TEST_F(CallbackSenderTest, DoesNotRecallAnUnknownDelegation) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  caller_.Recall(client_, stateid4{.seqid = 1, .other = {}}, kFile, std::nullopt);
  EXPECT_TRUE(channel->received.empty());
}

// RFC 8881 §20.8: CB_RECALL_SLOT applies to the session of the call.
TEST_F(CallbackSenderTest, RecallsSlotsInTheirSession) {
  const auto first = MakeChannel(Good), second = MakeChannel(Good);
  Open(first);
  std::vector<SlotRecall> recalls;
  state_.Run([&](StateTables& state) {
    AddSession(state, SequenceId(2), second);
    settings_.max_kept_octets = 0;
    settings_.max_slots = 8;
    const auto octets = xdr::Message::Whole(Slice::Borrowed(AsBytes("kept")));
    const SEQUENCE4args request{
        .sa_sessionid = session_, .sa_sequenceid = 1, .sa_slotid = 0, .sa_highest_slotid = 0, .sa_cachethis = true};
    ASSERT_TRUE(state.sessions.StartRequest(request, {}, {}, world_.Now()));
    state.sessions.FinishRequest(session_, SlotId(0), SequenceId(1), octets, world_.Now());
    state.BalanceReplies(world_.Now());
    recalls = state.TakeOwed().slot_recalls;
  });
  ASSERT_EQ(recalls.size(), 2u);
  caller_.RecallSlots(client_, recalls[1].session, recalls[1].target_highest);
  ASSERT_EQ(second->received.size(), 1u);
  EXPECT_EQ(second->received[0].operation, OP_CB_RECALL_SLOT);
  EXPECT_EQ(second->received[0].recall_slot.rsa_target_highest_slotid, 3u);
  EXPECT_EQ(second->received[0].sequence->csa_sessionid, recalls[1].session);
  EXPECT_TRUE(first->received.empty());
}

TEST_F(CallbackSenderTest, RecallsNoSlotsIfTheClientOwesNone) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  caller_.RecallSlots(client_, session_, SlotId(3));
  EXPECT_TRUE(channel->received.empty());
}

TEST_F(CallbackSenderTest, SendsALockNoticeOnce) {
  const auto channel = MakeChannel([](const ReceivedCallback&) { return CallbackReply{.status = NFS4ERR_DELAY}; });
  Open(channel);
  caller_.NotifyLock(client_, kFile, AsBytes("owner"));
  world_.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(channel->received.size(), 1u);
  EXPECT_EQ(channel->received[0].operation, OP_CB_NOTIFY_LOCK);
}

TEST_F(CallbackSenderTest, GetAttributesReturnsChangeAndSizeOfTheHolder) {
  std::array<std::byte, 16> values{};
  StoreBig<uint64_t>(&values[0], 11);
  StoreBig<uint64_t>(&values[8], 22);
  const auto channel = MakeChannel([&](const ReceivedCallback& call) -> std::optional<CallbackReply> {
    EXPECT_EQ(FileHandle::Parse(call.get_attributes.fh.bytes()), kFile);
    return CallbackReply{
        .attributes = fattr4{.attrmask = call.get_attributes.attr_request, .attr_vals = attrlist4(ConstBytes(values))}};
  });
  Open(channel);
  HolderAttributes held;
  Spawn([](CallbackSender& caller, ClientId client, HolderAttributes& out) -> Task<void> {
    out = co_await caller.GetAttributes(nullptr, client, kFile, false);
  }(caller_, client_, held));
  EXPECT_EQ(held.change, 11u);
  EXPECT_EQ(held.size, 22u);
}

TEST_F(CallbackSenderTest, GetAttributesEndsAfterItsTimeout) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  bool done = false;
  Spawn([](CallbackSender& caller, ClientId client, bool& out) -> Task<void> {
    const HolderAttributes held = co_await caller.GetAttributes(nullptr, client, kFile, false);
    out = !held.change && !held.size;
  }(caller_, client_, done));
  world_.RunFor(std::chrono::seconds(2));
  EXPECT_FALSE(done);
  world_.RunFor(std::chrono::seconds(2));
  EXPECT_TRUE(done);
}

TEST_F(CallbackSenderTest, MakesNoCallAfterStop) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  caller_.Stop();
  OffloadDone();
  bool done = false;
  Spawn([](CallbackSender& caller, ClientId client, bool& out) -> Task<void> {
    co_await caller.GetAttributes(nullptr, client, kFile, false);
    out = true;
  }(caller_, client_, done));
  EXPECT_TRUE(done);
  EXPECT_TRUE(channel->received.empty());
}

TEST_F(CallbackSenderTest, StopEndsWaitingCalls) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  OffloadDone();
  channel->Fail(rpc::CallError::kDisconnected);
  EXPECT_EQ(caller_.under_way(), 1u);
  caller_.Stop();
  EXPECT_EQ(caller_.under_way(), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v4
