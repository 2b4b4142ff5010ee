// Tests of connections whose limits a program changes (rpc/connection_control.h): how they begin, what they grant, and
// how credits come back.
#include "rpc/connection_control.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

#include "rpcrdma/credits.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

using rpc::ConnectionLimits;

// The server processes a message only 10 ms after it has arrived. Messages that arrive together therefore need a
// receive each.
rdma::sim::Options WithLateCompletions() {
  rdma::sim::Options options;
  options.completion_delay = std::chrono::milliseconds(10);
  return options;
}

class ConnectionControlTest : public ResponderTest {
 protected:
  static constexpr ConnectionLimits kAsked{
      .max_request = 8192, .max_response = 2048, .credits = 6, .padding = 0, .reads = 3};

  ConnectionControlTest() : ResponderTest(WithLateCompletions()) {
    rig_.server_options.responder.one_receive_first = true;
    rig_.server_options.responder.credits = 8;
    rig_.server_options.max_agreed_size = 16384;
    rig_.handler.set_on_call([this](rpc::Xid xid, const rpc::Peer& peer) {
      ASSERT_TRUE(peer.control);
      if (action_) action_(xid, *peer.control);
    });
  }

  using Action = std::function<void(rpc::Xid, rpc::ConnectionControl&)>;
  // Sends a call, and runs `action` during its execution. Returns the credits that the reply grants, or zero if the
  // reply is no reply to the call.
  uint32_t Call(Action action = {}, const TestCall& call = {.xid = kXid}, const ChunkLists& chunks = {}) {
    action_ = std::move(action);
    const std::vector<ByteVector> answers = Answers(MessageOf(Procedure::kMsg, chunks, Stream(call), call.xid));
    action_ = {};
    if (answers.size() != 1 || LoadBig<uint32_t>(answers[0].data() + 12) == kError) return 0;
    return LoadBig<uint32_t>(answers[0].data() + 8);
  }
  // Sends calls at once, and returns the number of replies.
  size_t CallAtOnce(uint32_t count) {
    received_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      Send(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + i}), kXid + i));
    }
    rig_.world.RunFor(std::chrono::seconds(1));
    return received_.size();
  }
  void SendEmpty(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Send({});
    rig_.world.RunFor(std::chrono::seconds(1));
  }
  // Binds with the limits that are offered for `asked`, and returns the grant.
  uint32_t Bind(const ConnectionLimits& asked = kAsked) {
    return Call([&](rpc::Xid xid, rpc::ConnectionControl& control) {
      bound_ = control.Offer(asked);
      control.Bind(xid, bound_);
    });
  }
  static void KeepOpen(rpc::Xid xid, rpc::ConnectionControl& control) { control.KeepLimitsOpen(xid); }

  ConnectionLimits bound_;

 private:
  Action action_;
};

// ---- one receive first ----

TEST_F(ConnectionControlTest, TheFirstReplyGrantsTheCredits) {
  Connect();
  EXPECT_EQ(Call(), 8u);
  EXPECT_EQ(CallAtOnce(8), 8u);
  EXPECT_FALSE(lost_);
}

TEST_F(ConnectionControlTest, ThereIsOneReceiveBeforeTheFirstReply) {
  Connect();
  CallAtOnce(2);
  EXPECT_TRUE(lost_);
}

TEST_F(ConnectionControlTest, AnErrorIsAFirstReply) {
  Connect();
  ChunkLists chunks;
  chunks.reads.push_back({6, {}});
  EXPECT_EQ(Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid}))),
            std::vector<ByteVector>{Words({kXid, 1, 8, kError, 2})});
  EXPECT_EQ(CallAtOnce(8), 8u);
}

TEST_F(ConnectionControlTest, WithoutTheOptionAllReceivesArePosted) {
  rig_.server_options.responder.one_receive_first = false;
  Connect();
  EXPECT_EQ(CallAtOnce(8), 8u);
  EXPECT_FALSE(lost_);
}

TEST_F(ConnectionControlTest, ReceivesInTheBeginningOneCallAfterTheOther) {
  Connect();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Call(KeepOpen), 1u);
  EXPECT_EQ(Call(), 8u);
}

// A client that has given its first call up sends another one.
TEST_F(ConnectionControlTest, ToleratesALaterCallBeforeTheFirstReply) {
  rig_.handler.set_delay(std::chrono::seconds(2));
  Connect();
  received_.clear();
  for (uint32_t i = 0; i < 2; ++i) {
    Send(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + i}), kXid + i));
    rig_.world.RunFor(std::chrono::seconds(1));
  }
  rig_.world.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(received_.size(), 2u);
  EXPECT_FALSE(lost_);
}

// ---- binding ----

TEST_F(ConnectionControlTest, ABindingChangesTheSizesAndTheCredits) {
  Connect();
  EXPECT_EQ(Call(KeepOpen), 1u);
  EXPECT_EQ(Bind(), 6u);
  EXPECT_EQ(bound_, kAsked);
  // Longer than the size that the server has announced.
  EXPECT_EQ(Call({}, {.xid = kXid, .filler = 8000}), 6u);
  EXPECT_EQ(CallAtOnce(6), 6u);
  EXPECT_FALSE(lost_);
}

TEST_F(ConnectionControlTest, AllReceivesHaveTheBoundSize) {
  Connect();
  ASSERT_EQ(Bind(), 6u);
  received_.clear();
  for (uint32_t i = 0; i < 6; ++i) {
    Send(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + i, .filler = 8000}), kXid + i));
  }
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(received_.size(), 6u);
}

TEST_F(ConnectionControlTest, ALongerCallThanTheBoundSizeEndsTheConnection) {
  Connect();
  ASSERT_EQ(Bind(), 6u);
  EXPECT_EQ(Call({}, {.xid = kXid, .filler = 8192 - 28 - 24}), 6u);
  EXPECT_EQ(Call({}, {.xid = kXid, .filler = 8192 - 28 - 20}), 0u);
  EXPECT_TRUE(lost_);
  EXPECT_EQ(rig_.handler.calls(), 2u);
}

TEST_F(ConnectionControlTest, OffersNoMoreThanTheServerHas) {
  Connect();
  Bind({.max_request = 1 << 20, .max_response = 0, .credits = 1000, .padding = 64, .reads = 1000});
  EXPECT_EQ(bound_,
            (ConnectionLimits{.max_request = 16384, .max_response = 16384, .credits = 8, .padding = 0, .reads = 16}));
}

TEST_F(ConnectionControlTest, FewCallsAtOnceMayBeLonger) {
  rig_.server_options.longest_agreed_call = 50'000;
  Connect();
  ASSERT_EQ(Call(KeepOpen), 1u);
  EXPECT_EQ(Bind({.max_request = 1 << 20, .max_response = 0, .credits = 4, .padding = 0, .reads = 3}), 4u);
  EXPECT_EQ(bound_.max_request, 2 * 16384u) << "half of the calls, twice as long";
  EXPECT_EQ(bound_.max_response, 16384u);
  EXPECT_EQ(Call({}, {.xid = kXid, .filler = 32'000}), 4u);
  EXPECT_EQ(CallAtOnce(4), 4u);
  EXPECT_FALSE(lost_);
}

TEST_F(ConnectionControlTest, NoCallIsLongerThanTheServerAllows) {
  rig_.server_options.longest_agreed_call = 50'000;
  Connect();
  ASSERT_EQ(Call(KeepOpen), 1u);
  EXPECT_EQ(Bind({.max_request = 1 << 20, .max_response = 0, .credits = 1, .padding = 0, .reads = 3}), 1u);
  EXPECT_EQ(bound_.max_request, 50'000u);
  EXPECT_EQ(Call({}, {.xid = kXid, .filler = 49'000}), 1u);
}

TEST_F(ConnectionControlTest, TheSizesStayOnceThePeerMayUseMoreReceives) {
  Connect({true, 4096, 1024});
  ASSERT_EQ(Call(), 8u);
  EXPECT_EQ(Bind(), 6u);
  EXPECT_EQ(bound_,
            (ConnectionLimits{.max_request = 4096, .max_response = 1024, .credits = 6, .padding = 0, .reads = 3}));
  EXPECT_EQ(CallAtOnce(6), 6u);
}

TEST_F(ConnectionControlTest, TheReceivesForTheReplyToACallOfTheServerKeepTheSizes) {
  Connect({true, 4096, 1024});
  ASSERT_EQ(Call(KeepOpen), 1u);
  CallResult result;
  Spawn(Store(rig_.handler.back_channel()->Call(EncodeCall(rig_.server_provider->buffers(), {.xid = 5}), {}), result));
  rig_.world.RunFor(std::chrono::seconds(1));
  Bind();
  EXPECT_EQ(bound_.max_request, 4096u);
  EXPECT_EQ(bound_.max_response, 1024u);
  endpoint_->Disconnect();
  EXPECT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
}

TEST_F(ConnectionControlTest, DoesNotStepUp) {
  Connect();
  std::optional<ConnectionLimits> offered = kAsked;
  Call([&](rpc::Xid xid, rpc::ConnectionControl& control) { offered = control.OfferStepUp(xid, kAsked); });
  EXPECT_EQ(offered, std::nullopt);
}

TEST_F(ConnectionControlTest, ABindingWithoutReadsRefusesReadChunks) {
  Connect();
  ASSERT_EQ(Bind({.max_request = 8192, .max_response = 8192, .credits = 6}), 6u);
  ByteVector memory(100);
  ChunkLists chunks;
  chunks.reads.push_back({28, Register(memory, rdma::Access::kRemoteRead)});
  EXPECT_EQ(Answers(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .arguments = {100}}))),
            std::vector<ByteVector>{Words({kXid, 1, 6, kError, 2})});
  EXPECT_FALSE(lost_);
}

// ---- the room for a reply ----

TEST_F(ConnectionControlTest, ReplyRoomIsASendOrTheReplyChunk) {
  Connect({false, 4096, 4096});
  size_t room = 0;
  std::optional<size_t> first, second, third;
  const Action look = [&](rpc::Xid xid, rpc::ConnectionControl& control) {
    room = control.ReplyRoom(xid);
    first = control.PayloadRoom(xid, 0);
    second = control.PayloadRoom(xid, 1);
    third = control.PayloadRoom(xid, 2);
  };
  Call(look);
  EXPECT_EQ(room, 4096u - 28);
  EXPECT_EQ(first, std::nullopt);
  ByteVector memory(10'000);
  ChunkLists chunks;
  const Segment all = Register(memory, rdma::Access::kRemoteWrite);
  chunks.writes.AddChunk();
  chunks.writes.Add({all.stag, 1000, all.offset});
  chunks.writes.Add({all.stag, 500, all.offset + 1000});
  chunks.writes.AddChunk();
  Call(look, {.xid = kXid, .results = {1500, 3}}, chunks);
  EXPECT_EQ(room, 4096u - 28 - 8 - 2 * 16 - 8);
  EXPECT_EQ(first, 1500u);
  EXPECT_EQ(second, std::nullopt);
  EXPECT_EQ(third, std::nullopt);
  chunks.Clear();
  chunks.has_reply = true;
  chunks.reply.push_back({all.stag, 6000, all.offset});
  Call(look, {.xid = kXid, .reply_filler = 5000}, chunks);
  EXPECT_EQ(room, 6000u);
  chunks.reply.front().length = 100;
  Call(look, {.xid = kXid}, chunks);
  EXPECT_EQ(room, 4096u - 28 - 4 - 16) << "a short Reply chunk takes nothing from a Send";
}

// The client posts longer receives before it hears of the binding, but not before it asks for it.
TEST_F(ConnectionControlTest, LongerRepliesBeginAfterTheReplyToTheBinding) {
  Connect({true, 4096, 1024});
  size_t room = 0;
  ASSERT_EQ(Call([&](rpc::Xid xid, rpc::ConnectionControl& control) {
              control.Bind(xid, control.Offer(kAsked));
              room = control.ReplyRoom(xid);
            }),
            6u);
  EXPECT_EQ(room, 1024u - 28);
  Call([&](rpc::Xid xid, rpc::ConnectionControl& control) { room = control.ReplyRoom(xid); });
  EXPECT_EQ(room, 2048u - 28);
  EXPECT_EQ(Call({}, {.xid = kXid, .reply_filler = 1900}), 6u);
}

// ---- credits that come back ----

class WithdrawalTest : public ConnectionControlTest {
 protected:
  static constexpr Duration kLimit = std::chrono::seconds(100);

  void Withdraw(uint32_t credits) { rig_.handler.back_channel()->Withdraw(credits, kLimit); }
  // Binds a connection with six credits, so that ten receives are posted, and withdraws all but two.
  void WithdrawFour() {
    Connect();
    ASSERT_EQ(Bind(), 6u);
    Withdraw(2);
  }
};

TEST_F(WithdrawalTest, CallsUnderTheOldGrantHaveTheirReceives) {
  WithdrawFour();
  EXPECT_EQ(CallAtOnce(6), 6u);
  EXPECT_FALSE(lost_);
}

TEST_F(WithdrawalTest, EachCallTakesOneReceiveBackAndIsGrantedOneCreditLess) {
  WithdrawFour();
  for (const uint32_t granted : {5, 4, 3, 2, 2}) EXPECT_EQ(Call(), granted);
  // Two credits and the slack are left.
  EXPECT_EQ(CallAtOnce(2 + ResponderCredits::kSlack), 6u);
  EXPECT_FALSE(lost_);
  CallAtOnce(2 + ResponderCredits::kSlack + 1);
  EXPECT_TRUE(lost_);
}

TEST_F(WithdrawalTest, EachEmptySendTakesOneReceiveBack) {
  WithdrawFour();
  SendEmpty(4);
  EXPECT_EQ(CallAtOnce(2 + ResponderCredits::kSlack), 6u);
  EXPECT_FALSE(lost_);
  CallAtOnce(2 + ResponderCredits::kSlack + 1);
  EXPECT_TRUE(lost_);
}

TEST_F(WithdrawalTest, OneCreditStays) {
  Connect();
  ASSERT_EQ(Bind(), 6u);
  Withdraw(0);
  for (const uint32_t granted : {5, 4, 3, 2}) EXPECT_EQ(Call(), granted);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Call(), 1u);
}

TEST_F(WithdrawalTest, AHigherNumberChangesNothing) {
  WithdrawFour();
  SendEmpty(4);
  Withdraw(5);
  EXPECT_EQ(Call(), 2u);
}

TEST_F(WithdrawalTest, DisconnectsAPeerThatKeepsACredit) {
  WithdrawFour();
  SendEmpty(3);
  rig_.world.RunFor(kLimit - std::chrono::seconds(2));
  EXPECT_FALSE(lost_);
  rig_.world.RunFor(std::chrono::seconds(3));
  EXPECT_TRUE(lost_);
}

TEST_F(WithdrawalTest, APeerThatHasReturnedItsCreditsStaysConnected) {
  WithdrawFour();
  SendEmpty(3);
  EXPECT_EQ(Call(), 2u);
  rig_.world.RunFor(kLimit * 2);
  EXPECT_FALSE(lost_);
  EXPECT_EQ(Call(), 2u);
}

// ---- empty Sends ----

class EmptySendTest : public ConnectionControlTest {};

TEST_F(EmptySendTest, MeansNothingBeforeABinding) {
  rig_.server_options.responder.one_receive_first = false;
  Connect();
  for (int i = 0; i < 50; ++i) SendEmpty(4);
  EXPECT_EQ(CallAtOnce(8), 8u);
  EXPECT_FALSE(lost_);
}

TEST_F(EmptySendTest, ItsReceiveIsPostedAgainIfNothingIsWithdrawn) {
  Connect();
  ASSERT_EQ(Bind(), 6u);
  for (int i = 0; i < 5; ++i) {
    SendEmpty(5);
    EXPECT_EQ(Call(), 6u);
  }
  EXPECT_EQ(CallAtOnce(6), 6u);
  EXPECT_FALSE(lost_);
}

TEST_F(EmptySendTest, ManyInARowEndTheConnection) {
  Connect();
  ASSERT_EQ(Bind(), 6u);
  for (uint32_t i = 0; i < 6 + ResponderCredits::kSlack; ++i) SendEmpty(1);
  EXPECT_FALSE(lost_);
  SendEmpty(1);
  EXPECT_TRUE(lost_);
}

}  // namespace
}  // namespace penstock::rpcrdma
