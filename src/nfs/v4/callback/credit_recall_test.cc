// CB_CREDITRECALL (draft-talpey-nfsv4-rdma-sess-01 §2.4, §6.5): how CallbackSender makes it, and what becomes of
// clients that answer late, wrongly or not at all. state/sess01/credit_recalls_test.cc tests the tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nfs/v4/callback/callback_sender_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Channels = std::vector<std::shared_ptr<ScriptedChannel>>;

std::optional<CallbackReply> Later(const ReceivedCallback&) { return CallbackReply{.status = NFS4ERR_DELAY}; }

class CreditRecallTest : public CallbackSenderTest {
 protected:
  // A session with eight streamids, and two operations channels beside the back channel.
  struct Opened {
    uint64_t id = 0;
    std::shared_ptr<ScriptedChannel> back;
    Channels operations{};
  };

  CreditRecallTest() {
    settings_.max_slots = 8;
    settings_.max_kept_octets = 0;
    state_.SendBy(caller_);
  }

  Opened Create(std::string_view owner, ScriptedChannel::Answer answer) {
    Opened opened{.back = MakeChannel(std::move(answer))};
    state_.Run([&](StateTables& state) {
      const auto created = state.CreateBound({.verifier = Verifier(1),
                                              .owner = owner,
                                              .keeps_replies = true,
                                              .requests = 8,
                                              .connection = ++connections_,
                                              .dialect = dialect_},
                                             Principal::Of(anybody_), ++random_, world_.Now());
      ASSERT_TRUE(created);
      opened.id = created->sessionid;
    });
    Bind(opened.id, BACK, opened.back);
    for (int i = 0; i < 2; ++i) {
      opened.operations.push_back(MakeChannel(Good));
      Bind(opened.id, OPERATION, opened.operations.back());
    }
    return opened;
  }
  void Bind(uint64_t session, ChannelType type, const std::shared_ptr<ScriptedChannel>& way) {
    state_.Run([&](StateTables& state) {
      EXPECT_TRUE(state.BindChannel({.session = session,
                                     .type = type,
                                     .limits = {.max_request = 4096, .max_response = 4096, .credits = 8},
                                     .connection = {.number = ++connections_, .back_channel = way},
                                     .credential = anybody_},
                                    world_.Now()));
    });
  }
  // Executes a request over the last connection, and keeps its reply.
  void Keep(uint64_t session, uint32_t stream) {
    state_.Run([&](StateTables& state) {
      auto& sessions = state.bound_sessions;
      const auto& live = sessions.Find(session)->live.back();
      const auto started =
          sessions.StartRequest({.channelid = live.id.value(), .streamid = stream, .chainflags = NOCHAIN},
                                {.xid = rpc::Xid(stream + 1)}, {.number = live.connection}, nullptr, world_.Now());
      ASSERT_TRUE(started);
      sessions.FinishRequest(started->request, {.reply = xdr::Message::Whole(Slice::Borrowed(AsBytes("kept")))},
                             world_.Now());
    });
  }
  void Balance() {
    state_.Run([&](StateTables& state) { state.BalanceReplies(world_.Now()); });
  }
  // Lets the time pass, as KeepLeases() sees it.
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      world_.RunFor(std::chrono::seconds(1));
      state_.Run([&](StateTables& state) { state.Sweep(world_.Now()); });
    }
  }
  uint32_t Streams(const Opened& session) {
    return state_.Run([&](StateTables& state) { return state.bound_sessions.Find(session.id)->streams.count(); });
  }
  static bool Lost(const Opened& session) {
    bool lost = !session.back->connected();
    for (const auto& each : session.operations) {
      EXPECT_EQ(each->connected(), !lost) << "all connections or none";
    }
    return lost;
  }

  uint64_t random_ = 0;
  const Dialect dialect_{kFactsOfSess01, {}};
  const rpc::Credential anybody_{};
};

TEST_F(CreditRecallTest, WithdrawsTheCreditsAndThenCallsTheClient) {
  Opened session = Create("owner", nullptr);
  size_t withdrawn_before = 0;
  const auto back = MakeChannel([&](const ReceivedCallback&) {
    for (const auto& each : session.operations) withdrawn_before += each->withdrawn.size();
    return CallbackReply{};
  });
  session.back->CloseConnection("");
  Bind(session.id, BACK, back);
  // The last connection of the session carries the back channel now.
  session.operations.push_back(MakeChannel(Good));
  Bind(session.id, OPERATION, session.operations.back());
  Keep(session.id, 7);
  Balance();
  ASSERT_THAT(back->received, SizeIs(1));
  EXPECT_EQ(back->received[0].operation, OP_CB_CREDITRECALL);
  EXPECT_EQ(back->received[0].recall_credits.target, 4u);
  EXPECT_TRUE(back->received[0].control);
  EXPECT_EQ(withdrawn_before, 3u);
  for (const auto& each : session.operations) {
    EXPECT_THAT(each->withdrawn, ElementsAre(std::pair(4u, Duration(settings_.lease / 4))));
  }
  EXPECT_THAT(back->withdrawn, IsEmpty());
  EXPECT_EQ(Streams(session), 4u);
}

TEST_F(CreditRecallTest, CallsEachSessionOverItsOwnBackChannel) {
  const Opened first = Create("first", Good), second = Create("second", Good);
  Keep(first.id, 0);
  Keep(second.id, 0);
  Balance();
  for (const Opened* each : {&first, &second}) {
    EXPECT_THAT(each->back->received, SizeIs(1));
    EXPECT_EQ(Streams(*each), 4u);
  }
}

TEST_F(CreditRecallTest, NeverRecallsToZero) {
  const Opened session = Create("owner", Good);
  Keep(session.id, 0);
  for (int i = 0; i < 6; ++i) {
    Balance();
    Pass(10);
  }
  std::vector<uint32_t> targets;
  for (const auto& each : session.back->received) targets.push_back(each.recall_credits.target);
  EXPECT_THAT(targets, ElementsAre(4, 2, 1));
  EXPECT_EQ(Streams(session), 1u);
  EXPECT_FALSE(Lost(session));
}

TEST_F(CreditRecallTest, DisconnectsASilentClientAndNoOther) {
  const Opened silent = Create("silent", Silent), good = Create("good", Good);
  Keep(silent.id, 0);
  Keep(good.id, 0);
  Balance();
  Pass(22);
  EXPECT_FALSE(Lost(silent));
  Pass(1);
  EXPECT_TRUE(Lost(silent));
  EXPECT_FALSE(Lost(good));
  EXPECT_EQ(Streams(silent), 8u) << "the client may still use all of them";
  Pass(2);
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CreditRecallTest, RepeatsTheCallAfterDelay) {
  const auto session =
      Create("owner", [n = 0](const ReceivedCallback& call) mutable { return ++n < 5 ? Later(call) : Good(call); });
  Keep(session.id, 0);
  Balance();
  Pass(10);
  EXPECT_THAT(session.back->received, SizeIs(5));
  EXPECT_EQ(Streams(session), 4u);
  Pass(30);
  EXPECT_FALSE(Lost(session));
}

TEST_F(CreditRecallTest, DisconnectsAClientThatDelaysForEver) {
  const Opened session = Create("owner", Later);
  Keep(session.id, 0);
  Balance();
  Pass(24);
  EXPECT_TRUE(Lost(session));
}

TEST_F(CreditRecallTest, DisconnectsAClientThatRefuses) {
  const CallbackReply refusals[] = {{.status = NFS4ERR_OP_ILLEGAL},
                                    {.status = NFS4ERR_INVAL},
                                    {.sequence = NFS4ERR_SESS01_CONTROL_POS},
                                    {.accepted = rpc::AcceptStatus::PROC_UNAVAIL}};
  std::vector<Opened> sessions;
  for (const CallbackReply& refusal : refusals) {
    sessions.push_back(Create("owner" + std::to_string(connections_),
                              [&](const ReceivedCallback&) { return std::optional(refusal); }));
    Keep(sessions.back().id, 0);
  }
  Balance();
  Pass(22);
  for (const Opened& each : sessions) EXPECT_FALSE(Lost(each));
  Pass(1);
  for (const Opened& each : sessions) {
    EXPECT_TRUE(Lost(each));
    EXPECT_EQ(Streams(each), 8u);
  }
  // The status of the operation is final, and so is a refusal of the whole call.
  EXPECT_THAT(sessions[0].back->received, SizeIs(1));
  EXPECT_THAT(sessions[1].back->received, SizeIs(1));
  EXPECT_THAT(sessions[3].back->received, SizeIs(1));
}

TEST_F(CreditRecallTest, RepeatsTheCallOverTheNextBackChannel) {
  const Opened session = Create("owner", Silent);
  Keep(session.id, 0);
  Balance();
  Pass(5);
  ASSERT_THAT(session.back->received, SizeIs(1));
  session.back->Fail(rpc::CallError::kDisconnected);
  Pass(5);
  const auto next = MakeChannel(Good);
  Bind(session.id, BACK, next);
  Pass(2);
  ASSERT_THAT(next->received, SizeIs(1));
  const ReceivedCallback &lost = session.back->received[0], &again = next->received[0];
  EXPECT_EQ(again.header.xid, lost.header.xid);
  EXPECT_EQ(again.control->channelid, lost.control->channelid);
  EXPECT_EQ(again.control->streamid, lost.control->streamid);
  EXPECT_EQ(again.recall_credits.target, 4u);
  EXPECT_EQ(Streams(session), 4u);
  Pass(30);
  EXPECT_TRUE(session.operations[0]->connected());
}

TEST_F(CreditRecallTest, DisconnectsAClientThatBindsNoOtherBackChannel) {
  const Opened session = Create("owner", Silent);
  Keep(session.id, 0);
  Balance();
  session.back->Fail(rpc::CallError::kDisconnected);
  Pass(23);
  EXPECT_TRUE(Lost(session));
  Pass(2);
  EXPECT_EQ(caller_.under_way(), 0u);
}

TEST_F(CreditRecallTest, TheEndOfTheSessionEndsTheCall) {
  const Opened session = Create("owner", Silent);
  Keep(session.id, 0);
  Balance();
  EXPECT_EQ(caller_.under_way(), 1u);
  state_.Run([&](StateTables& state) { state.End(state.bound_sessions.Find(session.id)->client, world_.Now()); });
  Pass(2);
  EXPECT_EQ(caller_.under_way(), 0u);
}

// The sender is busy with other calls and drops this one.
TEST_F(CreditRecallTest, ADroppedCallIsMadeLater) {
  const Opened busy = Create("busy", Silent), session = Create("owner", Good);
  client_ = state_.Run([&](StateTables& state) { return state.bound_sessions.Find(busy.id)->client; });
  for (int i = 0; i < 8; ++i) OffloadDone();
  Keep(session.id, 0);
  Balance();
  EXPECT_THAT(session.back->received, IsEmpty());
  busy.back->Fail(rpc::CallError::kTimedOut);
  Pass(100);
  EXPECT_EQ(caller_.under_way(), 0u);
  EXPECT_FALSE(Lost(session)) << "the client does not know of a recall";
  Balance();
  ASSERT_THAT(session.back->received, SizeIs(1));
  EXPECT_EQ(session.back->received[0].recall_credits.target, 2u);
}

}  // namespace
}  // namespace penstock::nfs::v4
