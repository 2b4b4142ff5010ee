// Tests the slots and connections that carry callbacks to clients of minor version 1 and later (RFC 8881 §2.10.6.1,
// §2.10.6.2).
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using Fate = CallbackSlots::Fate;

TEST(CallbackSlots, TakeReturnsTheLowestFreeSlot) {
  CallbackSlots slots(2);
  const auto first = slots.Take(), second = slots.Take();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id, SlotId(0));
  EXPECT_EQ(second->id, SlotId(1));
  EXPECT_EQ(slots.highest_busy(), SlotId(1));
  EXPECT_EQ(slots.Take(), std::nullopt);
  slots.Give(*second, Fate::kSeen);
  EXPECT_EQ(slots.highest_busy(), SlotId(0));
  EXPECT_EQ(slots.Take()->id, SlotId(1));
}

TEST(CallbackSlots, SequenceIdAdvancesOnlyAfterAnExecutedCall) {
  CallbackSlots slots(1);
  const auto take = [&] { return slots.Take().value(); };
  auto slot = take();
  EXPECT_EQ(slot.sequence, SequenceId(1));
  slots.Give(slot, Fate::kUnseen);
  slot = take();
  EXPECT_EQ(slot.sequence, SequenceId(1));
  slots.Give(slot, Fate::kSeen);
  EXPECT_EQ(take().sequence, SequenceId(2));
}

TEST(CallbackSlots, SlotWithUnknownOutcomeIsNotReused) {
  CallbackSlots slots(2);
  slots.Give(*slots.Take(), Fate::kUnknown);
  EXPECT_FALSE(slots.all_lost());
  const auto second = slots.Take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, SlotId(1));
  EXPECT_EQ(slots.Take(), std::nullopt);
  slots.Give(*second, Fate::kUnknown);
  EXPECT_TRUE(slots.all_lost());
}

class CallbackPathsTest : public ClientsTest {
 protected:
  CallbackPathsTest() { connection_.back_channel = channel_; }

  BufferPool buffers_;
  std::shared_ptr<TestBackChannel> channel_ = std::make_shared<TestBackChannel>(buffers_);
};

TEST_F(CallbackPathsTest, CallbackUsesTheSessionsBackchannel) {
  const Opened client = Open("owner");
  const auto call = sessions_.StartCallback(client.client);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->session, client.session);
  EXPECT_EQ(call->slot.sequence, SequenceId(1));
  EXPECT_EQ(call->program, 0x40000000u);
  EXPECT_EQ(call->minor_version, MinorVersion(1));
  EXPECT_EQ(call->channel, channel_);
  sessions_.FinishCallback(*call, Fate::kSeen);
  EXPECT_EQ(sessions_.StartCallback(client.client)->slot.sequence, SequenceId(2));
}

TEST_F(CallbackPathsTest, CallbackUsesAnySessionWithAWorkingBackchannel) {
  const Opened client = Open("owner");
  connection_ = {2, std::make_shared<TestBackChannel>(buffers_)};
  const SessionId second = Create(client.client, 2).reply.csr_resok4().csr_sessionid;
  channel_->Disconnect();
  const auto call = sessions_.StartCallback(client.client);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->session, second);
  EXPECT_EQ(sessions_.StartCallback(client.client, client.session).error(), Sessions::NoCallback::kNoPath);
}

TEST_F(CallbackPathsTest, StartCallbackReportsWhyItFails) {
  EXPECT_EQ(sessions_.StartCallback(ClientId(4711)).error(), Sessions::NoCallback::kNoClient);
  const Opened client = Open("owner");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(sessions_.StartCallback(client.client));
  EXPECT_EQ(sessions_.StartCallback(client.client).error(), Sessions::NoCallback::kBusy);
  channel_->Disconnect();
  EXPECT_EQ(sessions_.StartCallback(client.client).error(), Sessions::NoCallback::kNoPath);
}

TEST_F(CallbackPathsTest, LostCallbackIsRepeatedOverAnotherConnection) {
  const Opened client = Open("owner");
  const auto call = sessions_.StartCallback(client.client);
  channel_->Disconnect();
  EXPECT_EQ(sessions_.CallbackChannel(client.session), nullptr);
  const auto other = std::make_shared<TestBackChannel>(buffers_);
  ASSERT_TRUE(sessions_.Bind(client.session, {5, other}, nfs4::CDFC4_BACK_OR_BOTH, {}));
  EXPECT_EQ(sessions_.CallbackChannel(client.session), other);
  sessions_.FinishCallback(*call, Fate::kSeen);
}

TEST_F(CallbackPathsTest, SuspectConnectionCarriesNoCallbacksUntilBoundAgain) {
  const Opened client = Open("owner");
  sessions_.SuspectChannel(client.session, *channel_);
  EXPECT_FALSE(tables_.CanCall(client.client));
  EXPECT_NE(StatusFlags(client.session, 0, 1) & nfs4::SEQ4_STATUS_CB_PATH_DOWN, 0u);
  ASSERT_TRUE(sessions_.Bind(client.session, connection_, nfs4::CDFC4_FORE_OR_BOTH, {}));
  EXPECT_TRUE(tables_.CanCall(client.client));
}

TEST_F(CallbackPathsTest, SessionWithAllSlotsLostReportsABackchannelFault) {
  const Opened client = Open("owner");
  for (int i = 0; i < 4; ++i) sessions_.FinishCallback(*sessions_.StartCallback(client.client), Fate::kUnknown);
  EXPECT_NE(StatusFlags(client.session, 0, 1) & nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT, 0u);
  EXPECT_FALSE(tables_.CanCall(client.client));
}

TEST_F(CallbackPathsTest, CallbackMayFinishAfterItsSessionEnds) {
  const Opened client = Open("owner");
  const auto call = sessions_.StartCallback(client.client);
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(sessions_.CallbackChannel(client.session), nullptr);
  sessions_.FinishCallback(*call, Fate::kSeen);
}

TEST_F(CallbackPathsTest, BackchannelCtlChangesProgramAndCredential) {
  const Opened client = Open("owner");
  EXPECT_EQ(sessions_.ControlBackChannel(client.session, 0x40000009,
                                         rpc::ClientCredential({.machine = "m", .uid = 3, .groups = {}}), {}),
            nfs4::NFS4_OK);
  const auto call = sessions_.StartCallback(client.client);
  EXPECT_EQ(call->program, 0x40000009u);
  EXPECT_EQ(call->credential.auth().flavor, rpc::AuthFlavor::AUTH_SYS);
}

}  // namespace
}  // namespace penstock::nfs::v4
