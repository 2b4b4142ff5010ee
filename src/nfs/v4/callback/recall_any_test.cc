// CB_RECALL_ANY (RFC 8881 §20.6): how CallbackSender makes it, and the recalls that clients get instead or afterwards.
// state/files/surplus_delegations_test.cc tests the tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "nfs/v4/callback/callback_sender_test.h"

namespace penstock::nfs::v4 {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Fourteen delegations are too many, and twelve are not.
class RecallAnyTest : public CallbackSenderTest {
 protected:
  static constexpr uint32_t kTooMany = kDelegations - kDelegations / 8;
  static constexpr uint32_t kFew = kDelegations - kDelegations / 4;

  RecallAnyTest() { state_.SendBy(caller_); }

  // The client gets delegations of `count` files that it does not have yet.
  void Delegate(size_t count, const Dialect& dialect = DialectOf(1)) {
    state_.Run([&](StateTables& state) {
      for (size_t i = 0; i < count; ++i) {
        const std::string name = "file " + std::to_string(++files_);
        const NamedFile file{{ExportId(7), *fs::Handle::FromBytes(AsBytes(name))}, {}};
        const DelegationFacts facts{.share = {OPEN4_SHARE_ACCESS_READ, 0}, .can_call_back = true};
        const NamedFile named{file.handle, {1, file.handle.object}};
        const auto given = state.files.delegations.Delegate(
            {.client = client_, .file = named, .dialect = dialect, .facts = facts}, world_.Now());
        ASSERT_TRUE(given.is_read());
        held_.emplace_back(given.read().stateid, named.handle);
      }
    });
  }
  // The client returns a delegation.
  void ReturnOne() {
    state_.Run([&](StateTables& state) {
      const auto& [id, file] = held_.back();
      const auto found = state.files.Find<DelegationState>({DialectOf(1), client_}, id, file);
      ASSERT_TRUE(found);
      state.files.delegations.Return(**found, world_.Now());
    });
    held_.pop_back();
  }
  // Lets `count` seconds pass, each with the work of KeepLeases(). The client keeps its lease.
  void Pass(int count) {
    for (int i = 0; i < count; ++i) {
      world_.RunFor(seconds(1));
      state_.Run([&](StateTables& state) {
        state.clients.Renew(client_, world_.Now());
        state.ReduceDelegations(world_.Now());
      });
    }
  }
  static std::vector<nfs_cb_opnum4> Operations(const ScriptedChannel& channel) {
    std::vector<nfs_cb_opnum4> operations;
    for (const ReceivedCallback& call : channel.received) operations.push_back(call.operation);
    return operations;
  }

  std::vector<std::pair<stateid4, FileHandle>> held_;  // by the client that was added last
  size_t files_ = 0;
};

TEST_F(RecallAnyTest, AsksForReadAndWriteDelegationsInTheSession) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  Delegate(kTooMany);
  EXPECT_THAT(channel->received, IsEmpty()) << "the request that got the last delegation does not wait for the call";
  Pass(3);
  ASSERT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY));
  EXPECT_EQ(channel->received[0].recall_any.craa_objects_to_keep, kFew);
  EXPECT_EQ(channel->received[0].recall_any.craa_type_mask,
            bitmap4{1u << RCA4_TYPE_MASK_RDATA_DLG | 1u << RCA4_TYPE_MASK_WDATA_DLG});
  EXPECT_EQ(channel->received[0].sequence->csa_sessionid, session_);
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(RecallAnyTest, AClientThatFollowsGetsNoRecall) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  Delegate(kTooMany);
  Pass(1);
  ReturnOne();
  Pass(80);
  ReturnOne();
  Pass(100);
  EXPECT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY));
}

// RFC 8881 §20.6.4
TEST_F(RecallAnyTest, AClientThatDoesNotFollowGetsRecallsAfterALeaseTime) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  Delegate(kTooMany);
  Pass(90);
  EXPECT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY));
  Pass(1);
  ASSERT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY, OP_CB_RECALL, OP_CB_RECALL));
  EXPECT_EQ(channel->received[1].recall.stateid.other, held_[0].first.other);
  EXPECT_EQ(channel->received[2].recall.stateid.other, held_[1].first.other);
  Pass(90);
  EXPECT_THAT(channel->received, SizeIs(3));
  EXPECT_TRUE(state_.Run([&](StateTables& state) { return state.files.delegations.HasRevoked(client_); }));
  EXPECT_EQ(state_.Run([&](StateTables& state) { return state.files.delegations.count(); }), kFew);
}

TEST_F(RecallAnyTest, ARefusalLeadsToRecallsAtOnce) {
  const auto channel = MakeChannel([](const ReceivedCallback& call) {
    return CallbackReply{.status = call.operation == OP_CB_RECALL_ANY ? NFS4ERR_NOTSUPP : NFS4_OK};
  });
  Open(channel);
  Delegate(kTooMany);
  Pass(2);
  EXPECT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY, OP_CB_RECALL, OP_CB_RECALL));
}

TEST_F(RecallAnyTest, RepeatsACallThatTheClientDelays) {
  int delays = 2;
  const auto channel = MakeChannel(
      [&](const ReceivedCallback&) { return CallbackReply{.status = delays-- > 0 ? NFS4ERR_DELAY : NFS4_OK}; });
  Open(channel);
  Delegate(kTooMany);
  Pass(10);
  EXPECT_THAT(Operations(*channel), ElementsAre(OP_CB_RECALL_ANY, OP_CB_RECALL_ANY, OP_CB_RECALL_ANY));
}

TEST_F(RecallAnyTest, RepeatsAnUnansweredCallOverTheNextConnection) {
  const auto first = MakeChannel(Silent), second = MakeChannel(Good);
  Open(first);
  Delegate(kTooMany);
  Pass(1);
  first->Fail(rpc::CallError::kDisconnected);
  Pass(10);
  Bind(second);
  Pass(2);
  EXPECT_THAT(Operations(*second), ElementsAre(OP_CB_RECALL_ANY));
}

TEST_F(RecallAnyTest, DoesNotRepeatACallThatTheClientHasFollowed) {
  const auto first = MakeChannel(Silent), second = MakeChannel(Good);
  Open(first);
  Delegate(kTooMany);
  Pass(1);
  first->Fail(rpc::CallError::kTimedOut);
  ReturnOne();
  ReturnOne();
  ASSERT_EQ(state_.Run([&](StateTables& state) { return state.sessions.Destroy(session_, connections_, {}); }),
            NFS4_OK);
  state_.Run([&](StateTables& state) { AddSession(state, SequenceId(2), second); });
  Pass(10);
  EXPECT_THAT(second->received, IsEmpty());
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(RecallAnyTest, HasOneCallToAClientUnderWay) {
  const auto channel = MakeChannel(Silent);
  Open(channel);
  Delegate(kTooMany);
  Pass(1);
  caller_.RecallAny({client_, kFew});
  Pass(60);
  EXPECT_THAT(channel->received, SizeIs(1));
  EXPECT_EQ(caller_.under_way(), 1u);
}

// The client has neither a connection nor a chance to follow. Its delegations are revoked two lease times later.
TEST_F(RecallAnyTest, AClientWithoutABackchannelLosesItsSurplusInTheEnd) {
  const auto channel = MakeChannel(Good);
  Open(channel);
  Delegate(kTooMany);
  channel->Fail(rpc::CallError::kDisconnected);
  Pass(180);
  EXPECT_EQ(state_.Run([&](StateTables& state) { return state.files.delegations.count(); }), kTooMany);
  Pass(1);
  EXPECT_EQ(state_.Run([&](StateTables& state) { return state.files.delegations.count(); }), kFew);
  EXPECT_THAT(channel->received, IsEmpty());
}

TEST_F(RecallAnyTest, ClientsThatDoNotAnswerLeaveRoomForOtherCalls) {
  for (const char* const owner : {"a", "b", "c", "d", "e"}) {
    Open(MakeChannel(Silent), owner);
    Delegate(owner == std::string_view("e") ? 2 : 3);
  }
  ASSERT_TRUE(state_.Run([&](StateTables& state) { return state.files.delegations.pressure().on(); }));
  Pass(1);
  EXPECT_EQ(caller_.under_way(), 3u);
}

// RFC 7530 §15.2 has no CB_RECALL_ANY.
TEST_F(RecallAnyTest, AClientOfMinorVersionZeroGetsRecallsAtOnce) {
  listener_ = MakeChannel(Good);
  OpenMinorZero();
  Delegate(kTooMany, DialectOf(0));
  Pass(1);
  ASSERT_THAT(Operations(*listener_), ElementsAre(OP_CB_RECALL, OP_CB_RECALL));
  EXPECT_EQ(listener_->received[0].recall.stateid, held_[0].first);
  Pass(100);
  EXPECT_THAT(listener_->received, SizeIs(2));
}

// Neither have the sessions of 2004.
TEST_F(RecallAnyTest, AClientOfTheSessionsOf2004GetsRecallsAtOnce) {
  const Dialect dialect{kFactsOfSess01, {}};
  const rpc::Credential anybody{};
  const auto back = MakeChannel(Good);
  state_.Run([&](StateTables& state) {
    const auto created = state.CreateBound(
        {.verifier = Verifier(1), .owner = "owner", .requests = 4, .connection = ++connections_, .dialect = dialect},
        Principal::Of(anybody), 1, world_.Now());
    ASSERT_TRUE(created);
    const auto bound = state.BindChannel({.session = created->sessionid,
                                          .type = BACK,
                                          .limits = {.max_request = 4096, .max_response = 4096, .credits = 4},
                                          .connection = {.number = ++connections_, .back_channel = back},
                                          .credential = anybody},
                                         world_.Now());
    ASSERT_TRUE(bound);
    client_ = bound->client;
  });
  Delegate(kTooMany, dialect);
  Pass(1);
  EXPECT_THAT(Operations(*back), ElementsAre(OP_CB_RECALL, OP_CB_RECALL));
  EXPECT_TRUE(back->received.at(0).control);
  state_.Run([&](StateTables& state) { state.End(client_, world_.Now()); });
}

}  // namespace
}  // namespace penstock::nfs::v4
