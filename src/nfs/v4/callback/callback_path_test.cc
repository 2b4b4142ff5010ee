// Tests of the paths to clients: CallbackSender probes the connections of a session's backchannel, and connects to the
// address of a client of minor version 0.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "nfs/v4/callback/callback_sender_test.h"

namespace penstock::nfs::v4 {
namespace {

// ---- probes in sessions ----

TEST_F(CallbackSenderTest, ProbesAConnectionOfTheBackchannel) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  caller_.ProbeSession(session_, channel);
  ASSERT_EQ(channel->received.size(), 1u);
  EXPECT_EQ(channel->received[0].header.program, 0x40000005u);
  EXPECT_EQ(channel->received[0].header.procedure, 0u);
  EXPECT_EQ(channel->received[0].header.credential.flavor, rpc::AuthFlavor::AUTH_SYS);
  EXPECT_EQ(caller_.under_way(), 0u);
  EXPECT_TRUE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
}

// The probe uses no slot, and other calls do not wait for it.
TEST_F(CallbackSenderTest, CallsAClientBeforeTheReplyToItsProbe) {
  const auto channel = MakeChannel(
      [](const ReceivedCallback& call) { return call.sequence ? std::optional(CallbackReply{}) : std::nullopt; });
  Open(channel);
  caller_.ProbeSession(session_, channel);
  OffloadDone();
  ASSERT_EQ(channel->received.size(), 2u);
  EXPECT_EQ(channel->received[1].sequence->csa_sequenceid, 1u);
  EXPECT_EQ(channel->received[1].sequence->csa_highest_slotid, 0u);
  EXPECT_EQ(caller_.under_way(), 1u);
}

TEST_F(CallbackSenderTest, DoesNotUseAConnectionWhoseProbeTimesOut) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  caller_.ProbeSession(session_, channel);
  EXPECT_TRUE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
  channel->Fail(rpc::CallError::kTimedOut);
  EXPECT_FALSE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
  Bind(channel);
  EXPECT_TRUE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
}

TEST_F(CallbackSenderTest, DoesNotUseAConnectionWhoseProbeIsRefused) {
  const auto channel =
      MakeChannel([](const ReceivedCallback&) { return CallbackReply{.accepted = rpc::AcceptStatus::PROG_UNAVAIL}; });
  Open(channel);
  caller_.ProbeSession(session_, channel);
  EXPECT_FALSE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
}

TEST_F(CallbackSenderTest, DoesNotProbeAConnectionTwiceAtATime) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  for (int i = 0; i < 3; ++i) caller_.ProbeSession(session_, channel);
  EXPECT_EQ(channel->received.size(), 1u);
  channel->Fail(rpc::CallError::kTimedOut);
  caller_.ProbeSession(session_, channel);
  EXPECT_EQ(channel->received.size(), 2u);
}

TEST_F(CallbackSenderTest, ProbesLeaveRoomForCalls) {
  Open(MakeChannel(Good));
  for (int i = 0; i < 6; ++i) caller_.ProbeSession(session_, MakeChannel(Silent));
  EXPECT_EQ(caller_.under_way(), 4u);
}

TEST_F(CallbackSenderTest, DoesNotProbeAnEndedSession) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  ASSERT_EQ(state_.Run([&](StateTables& state) { return state.sessions.Destroy(session_, connections_, {}); }),
            NFS4_OK);
  caller_.ProbeSession(session_, channel);
  EXPECT_TRUE(channel->received.empty());
}

// ---- minor version 0 ----

TEST_F(CallbackSenderTest, CallsAClientOfMinorVersionZeroAtItsAddress) {
  listener_ = MakeChannel(Good);
  OpenMinorZero();
  EXPECT_EQ(Path(), PathState::kUnknown);
  caller_.Probe(client_);
  ASSERT_EQ(connected_to_.size(), 1u);
  EXPECT_EQ(connected_to_[0], kListener);
  EXPECT_EQ(listener_->received.at(0).header.procedure, 0u);
  EXPECT_EQ(Path(), PathState::kWorks);

  OffloadDone();
  EXPECT_EQ(connected_to_.size(), 1u);
  ASSERT_EQ(listener_->received.size(), 2u);
  EXPECT_EQ(listener_->received[1].header.program, 0x40000009u);
  EXPECT_EQ(listener_->received[1].head.callback_ident, 3u);
  EXPECT_EQ(listener_->received[1].head.minorversion, 0u);
}

// RFC 7530 §3.3.3
TEST_F(CallbackSenderTest, CallsUnderTheFlavorOfSetClientId) {
  listener_ = MakeChannel(Good);
  OpenMinorZero(kListener, CallbackSecurity{.service = rpc::GssService::kIntegrity, .client = "c", .server = "s"});
  caller_.Probe(client_);
  OffloadDone();
  ASSERT_EQ(listener_->received.size(), 2u);
  for (const ReceivedCallback& call : listener_->received) {
    EXPECT_EQ(call.header.credential.flavor, rpc::AuthFlavor::RPCSEC_GSS);
  }
}

TEST_F(CallbackSenderTest, ProbesAClientOfMinorVersionZeroOnceAtATime) {
  listener_ = MakeChannel(Silent);
  OpenMinorZero();
  for (int i = 0; i < 6; ++i) caller_.Probe(client_);
  EXPECT_EQ(caller_.under_way(), 1u);
  channels_[0]->Fail(rpc::CallError::kDisconnected);
  caller_.Probe(client_);
  EXPECT_EQ(connected_to_.size(), 2u);
}

TEST_F(CallbackSenderTest, TheResultOfAnOldAddressSaysNothingOfTheNewOne) {
  listener_ = MakeChannel(Silent);
  OpenMinorZero();
  caller_.Probe(client_);
  const SocketAddress moved(asio::ip::make_address("127.0.0.1"), 2050);
  OpenMinorZero(moved);
  caller_.Probe(client_);
  listener_ = MakeChannel(Silent);
  channels_[0]->Fail(rpc::CallError::kDisconnected);
  EXPECT_EQ(Path(), PathState::kUnknown);
  ASSERT_EQ(connected_to_.size(), 2u);
  EXPECT_EQ(connected_to_[1], moved);
}

TEST_F(CallbackSenderTest, KeepsAConnectionWithoutASecurityContext) {
  listener_ = MakeChannel(Silent);
  OpenMinorZero();
  caller_.Probe(client_);
  channels_[0]->Fail(rpc::CallError::kNoContext);
  EXPECT_EQ(Path(), PathState::kDown);
  caller_.Probe(client_);
  EXPECT_EQ(connected_to_.size(), 1u);
}

TEST_F(CallbackSenderTest, SetsThePathDownIfTheConnectionFails) {
  OpenMinorZero();
  caller_.Probe(client_);
  EXPECT_EQ(Path(), PathState::kDown);
}

TEST_F(CallbackSenderTest, DoesNotCallAClientWithoutAnAddress) {
  OpenMinorZero(std::nullopt);
  caller_.Probe(client_);
  EXPECT_TRUE(connected_to_.empty());
  EXPECT_EQ(Path(), PathState::kDown);
}

TEST_F(CallbackSenderTest, ReconnectsToAClientAfterALostConnection) {
  listener_ = MakeChannel(Silent);
  OpenMinorZero();
  OffloadDone();
  channels_[0]->Fail(rpc::CallError::kDisconnected);
  EXPECT_EQ(Path(), PathState::kDown);
  listener_ = MakeChannel(Good);
  world_.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(connected_to_.size(), 2u);
  EXPECT_EQ(listener_->received.size(), 1u);
  EXPECT_EQ(Path(), PathState::kWorks);
}

}  // namespace
}  // namespace penstock::nfs::v4
