#include "client/nfs4/sess01/callbacks.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4::sess01 {
namespace {

using nfs4::ChainFlags;
using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;
using Outcome = CallbackTable::Outcome;

TEST(CallbackTable, ExecutesEachCallbackOnce) {
  CallbackTable table;
  table.HandleBound(1, 2);
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(5)).outcome, Outcome::kRun);
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(5)).outcome, Outcome::kWait);
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(6)).status, nfsstat4::NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(table.HandleCall(1, 1, 1, rpc::Xid(6)).outcome, Outcome::kRun);
  table.Finish(1, 0, {});
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(5)).outcome, Outcome::kReplay);
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(7)).outcome, Outcome::kRun);
}

TEST(CallbackTable, RefusesUnknownStreamsAndChannels) {
  CallbackTable table;
  table.HandleBound(3, 2);
  EXPECT_EQ(table.HandleCall(3, 3, 2, rpc::Xid(5)).status, nfsstat4::NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(table.HandleCall(3, 2, 0, rpc::Xid(5)).status, nfsstat4::NFS4ERR_SESS01_BADCHANNEL);
  table.HandleBound(4, 2);
  EXPECT_EQ(table.HandleCall(3, 4, 0, rpc::Xid(5)).status, nfsstat4::NFS4ERR_SESS01_BADCHANNEL)
      << "a retry names an earlier channel, not a later one";
}

TEST(CallbackTable, RecognizesARetryOverALaterBackChannel) {
  CallbackTable table;
  table.HandleBound(1, 1);
  EXPECT_EQ(table.HandleCall(1, 1, 0, rpc::Xid(5)).outcome, Outcome::kRun);
  table.Finish(1, 0, {});
  table.HandleBound(2, 1);
  EXPECT_EQ(table.HandleCall(2, 2, 0, rpc::Xid(5)).outcome, Outcome::kRun) << "each channel has streams of its own";
  EXPECT_EQ(table.HandleCall(2, 1, 0, rpc::Xid(5)).outcome, Outcome::kReplay);
}

TEST(CallbackTable, ForgetsOldBackChannelsAndOldSessions) {
  CallbackTable table;
  for (uint32_t channel = 1; channel <= CallbackTable::kRemembered + 1; ++channel) table.HandleBound(channel, 1);
  EXPECT_EQ(table.HandleCall(9, 1, 0, rpc::Xid(5)).status, nfsstat4::NFS4ERR_SESS01_BADCHANNEL);
  EXPECT_EQ(table.HandleCall(9, 2, 0, rpc::Xid(5)).outcome, Outcome::kRun);
  table.Clear();
  table.Finish(2, 0, {});
  EXPECT_EQ(table.HandleCall(9, 2, 0, rpc::Xid(5)).status, nfsstat4::NFS4ERR_SESS01_BADCHANNEL);
}

class BoundCallbacksTest : public testing::Test,
                           protected BackConnection,
                           protected BoundReceiver,
                           protected CallbackReceiver {
 protected:
  BoundCallbacksTest() {
    dispatcher.Add(program);
    peer.buffers = &pool;
    table.HandleBound(1, 2);
  }

  using Encode = std::function<void(xdr::Encoder&)>;
  void Send(uint32_t count, const Encode& encode, uint32_t minor_version = 1) {
    xdr::Encoder encoder(pool);
    rpc::EncodeCallHeader(encoder, {rpc::Xid(xid), nfs4::NFS4_CALLBACK, 1, nfs4::CB_COMPOUND::kNumber, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"tag", minor_version, 0, count});
    encode(encoder);
    Spawn([](BoundCallbacksTest& test, rpc::Message call) -> Task<> {
      test.replies.push_back(co_await test.dispatcher.HandleCall(std::move(call), test.peer));
    }(*this, encoder.Finish()));
  }
  // Calls, and returns the status of the last reply.
  nfsstat4 Call(uint32_t count, const Encode& encode, uint32_t minor_version = 1) {
    const size_t before = replies.size();
    Send(count, encode, minor_version);
    EXPECT_EQ(replies.size(), before + 1);
    return StatusOfLast();
  }
  nfsstat4 StatusOfLast() {
    xdr::Decoder decoder(replies.back());
    rpc::ReplyHeader header;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header));
    accepted = header.body.areply().reply_data.discriminant();
    if (accepted != rpc::AcceptStatus::SUCCESS) return nfsstat4::NFS4ERR_IO;
    EXPECT_TRUE(xdr::Decode(decoder, head));
    EXPECT_EQ(head.tag, "tag");
    rest.assign(decoder.rest().begin(), decoder.rest().end());
    return head.status;
  }
  static void Control(xdr::Encoder& encoder, uint32_t stream = 0, uint32_t channel = 1,
                      ChainFlags flag = ChainFlags::NOCHAIN) {
    xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_OPERATION_CONTROL);
    xdr::Encode(encoder, nfs4::OPERATIONCONTROL4args{channel, stream, flag});
  }
  static Encode Recall(uint32_t stream = 0, uint32_t channel = 1) {
    return [=](xdr::Encoder& encoder) {
      Control(encoder, stream, channel);
      xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL);
      xdr::Encode(encoder, nfs4::CB_RECALL4args{nfs4::stateid4(), false, {}});
    };
  }
  static Encode CreditRecall(uint32_t target) {
    return [=](xdr::Encoder& encoder) {
      Control(encoder);
      xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_CREDITRECALL);
      xdr::Encode(encoder, nfs4::CB_CREDITRECALLargs{target});
    };
  }

  // BackConnection
  Task<void> AwaitBinding() override {
    while (binding) co_await changed;
  }
  std::optional<uint32_t> back_channel() const override { return channel; }
  // BoundReceiver
  CallbackTable& callbacks() override { return table; }
  Signal& callbacks_changed() override { return changed; }
  Task<nfsstat4> RecallCredits(uint32_t target) override {
    targets.push_back(target);
    while (held) co_await changed;
    co_return nfsstat4::NFS4_OK;
  }
  // CallbackReceiver
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override {}
  nfsstat4 HandleRecall(const nfs4::CB_RECALL4args&) override {
    ++recalls;
    return nfsstat4::NFS4_OK;
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override {}
  DelegationTable::Pointer DelegationOf(const Handle&) override { return nullptr; }
  void HandleLockAvailable(const Handle&) override {}

  BufferPool pool;
  CallbackTable table;
  Signal changed;
  std::optional<uint32_t> channel = 1;
  bool binding = false;
  bool held = false;
  std::vector<uint32_t> targets;
  int recalls = 0;
  CallbackProgram program{*this, *this, *this};
  rpc::Dispatcher dispatcher;
  rpc::Peer peer;
  uint32_t xid = 1;
  std::vector<rpc::Message> replies;
  rpc::AcceptStatus accepted{};
  nfs4::CB_COMPOUND4res_head head;
  std::vector<std::byte> rest;
};

TEST_F(BoundCallbacksTest, ExecutesTheOperationsBehindOperationControl) {
  EXPECT_EQ(Call(2, Recall(1)), nfsstat4::NFS4_OK);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(recalls, 1);
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(rest));
  xdr::Decoder decoder(message);
  nfs_cb_opnum4 operation{};
  nfs4::OPERATIONCONTROL4res control;
  ASSERT_TRUE(xdr::Decode(decoder, operation) && xdr::Decode(decoder, control));
  EXPECT_EQ(operation, nfs_cb_opnum4::OP_CB_OPERATION_CONTROL);
  EXPECT_EQ(control.streamid(), 1u);
}

TEST_F(BoundCallbacksTest, AnswersARepetitionWithTheFirstReply) {
  Call(2, Recall());
  const std::vector<std::byte> first = rest;
  EXPECT_EQ(Call(2, Recall()), nfsstat4::NFS4_OK);
  EXPECT_EQ(rest, first);
  EXPECT_EQ(recalls, 1);
  // The connection of channel 1 is lost, and the server repeats the callback over the next one.
  table.HandleBound(2, 2);
  channel = 2;
  EXPECT_EQ(Call(2, Recall(0, 1)), nfsstat4::NFS4_OK);
  EXPECT_EQ(rest, first);
  EXPECT_EQ(recalls, 1);
  EXPECT_EQ(Call(2, Recall(0, 2)), nfsstat4::NFS4_OK);
  EXPECT_EQ(recalls, 2);
}

TEST_F(BoundCallbacksTest, OperationControlMustBeFirstAndOnlyThere) {
  EXPECT_EQ(Call(0, [](xdr::Encoder&) {}), nfsstat4::NFS4ERR_SESS01_CONTROL_POS);
  const auto recall = [](xdr::Encoder& encoder) {
    xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL);
    xdr::Encode(encoder, nfs4::CB_RECALL4args{nfs4::stateid4(), false, {}});
  };
  EXPECT_EQ(Call(1, recall), nfsstat4::NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(Call(2,
                 [](xdr::Encoder& encoder) {
                   Control(encoder);
                   Control(encoder);
                 }),
            nfsstat4::NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(head.count, 2u);
  EXPECT_EQ(recalls, 0);
}

TEST_F(BoundCallbacksTest, RefusesChainsUnknownStreamsAndUnboundConnections) {
  for (const auto flag : {ChainFlags::CHAINBEGIN, ChainFlags::CHAINCONTINUE, ChainFlags::CHAINEND}) {
    EXPECT_EQ(Call(1, [&](xdr::Encoder& encoder) { Control(encoder, 0, 1, flag); }),
              nfsstat4::NFS4ERR_SESS01_CHAIN_INVALID);
  }
  EXPECT_EQ(Call(2, Recall(2)), nfsstat4::NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Call(2, Recall(0, 7)), nfsstat4::NFS4ERR_SESS01_BADCHANNEL);
  channel.reset();
  EXPECT_EQ(Call(2, Recall()), nfsstat4::NFS4ERR_SESS01_NOT_BOUND);
  EXPECT_EQ(recalls, 0);
}

TEST_F(BoundCallbacksTest, RefusesOtherMinorVersionsAndMalformedCalls) {
  for (const uint32_t version : {0u, 2u}) {
    EXPECT_EQ(Call(2, Recall(), version), nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
    EXPECT_EQ(head.count, 0u);
  }
  const auto bad_flag = [](xdr::Encoder& encoder) {
    xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_OPERATION_CONTROL);
    for (const uint32_t word : {1u, 0u, 9u}) encoder.U32(word);
  };
  EXPECT_EQ(Call(1, bad_flag), nfsstat4::NFS4ERR_BADXDR);
  Call(1, [](xdr::Encoder&) {});
  EXPECT_EQ(accepted, rpc::AcceptStatus::GARBAGE_ARGS);
}

TEST_F(BoundCallbacksTest, OperationsOfRfc8881AreIllegal) {
  EXPECT_EQ(Call(2,
                 [](xdr::Encoder& encoder) {
                   Control(encoder);
                   xdr::Encode(encoder, nfs_cb_opnum4::OP_CB_RECALL_SLOT);
                   encoder.U32(0);
                 }),
            nfsstat4::NFS4ERR_OP_ILLEGAL);
}

TEST_F(BoundCallbacksTest, CreditRecallToZeroIsInvalid) {
  EXPECT_EQ(Call(2, CreditRecall(0)), nfsstat4::NFS4ERR_INVAL);
  EXPECT_TRUE(targets.empty());
  ++xid;
  EXPECT_EQ(Call(2, CreditRecall(3)), nfsstat4::NFS4_OK);
  EXPECT_EQ(targets, std::vector<uint32_t>{3});
}

TEST_F(BoundCallbacksTest, ARepetitionWaitsForTheEndOfTheFirstExecution) {
  held = true;
  Send(2, CreditRecall(3));
  Send(2, CreditRecall(3));
  EXPECT_TRUE(replies.empty());
  held = false;
  changed.Notify();
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(StatusOfLast(), nfsstat4::NFS4_OK);
  EXPECT_EQ(targets.size(), 1u);
}

TEST_F(BoundCallbacksTest, ACallbackThatOvertakesTheReplyToItsBindingWaits) {
  binding = true;
  channel.reset();
  Send(2, Recall());
  EXPECT_TRUE(replies.empty());
  channel = 1;
  binding = false;
  changed.Notify();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(StatusOfLast(), nfsstat4::NFS4_OK);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
