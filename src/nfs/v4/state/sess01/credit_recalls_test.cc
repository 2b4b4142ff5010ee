// CB_CREDITRECALL in the tables: when sessions of 2004 owe streamids, and how they lose them.
// callback/credit_recall_test.cc tests the calls.
#include <gtest/gtest.h>

#include <map>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "nfs/v4/state/sess01/bound_sessions.h"

namespace penstock::nfs::v4::sess01 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Outcome = StreamTable::Outcome;

class CreditRecallsTest : public ClientsTest {
 protected:
  CreditRecallsTest() {
    settings_.max_slots = 8;
    settings_.max_kept_octets = 100;
  }

  // Creates a session with eight streamids and binds `back` to its back channel, unless it is null.
  uint64_t Create(std::string_view owner, const std::shared_ptr<TestBackChannel>& back, bool keeps = true) {
    const auto created = tables_.CreateBound({.verifier = Verifier(1),
                                              .owner = owner,
                                              .keeps_replies = keeps,
                                              .requests = 8,
                                              .connection = ++connections_,
                                              .dialect = dialect_},
                                             Principal::Of(anybody_), ++random_, now_);
    EXPECT_TRUE(created);
    const uint64_t session = created->sessionid;
    if (back) Bind(session, nfs4::BACK, back, 2);
    operations_[session] = std::make_shared<TestBackChannel>(buffers_);
    Bind(session, nfs4::OPERATION, operations_[session]);
    return session;
  }
  // Returns the credits of the channel.
  uint32_t Bind(uint64_t session, nfs4::ChannelType type, const std::shared_ptr<TestBackChannel>& way,
                uint32_t credits = 8) {
    const auto bound = tables_.BindChannel({.session = session,
                                            .type = type,
                                            .limits = {.max_request = 4096, .max_response = 4096, .credits = credits},
                                            .connection = {.number = ++connections_, .back_channel = way},
                                            .credential = anybody_},
                                           now_);
    EXPECT_TRUE(bound);
    if (bound && type == nfs4::OPERATION) channel_[session] = {connections_, bound->channel.value()};
    return bound ? bound->credits : 0;
  }
  std::shared_ptr<TestBackChannel> Back() { return std::make_shared<TestBackChannel>(buffers_); }

  auto Start(uint64_t session, uint32_t stream, uint32_t xid) {
    const auto [connection, channel] = channel_[session];
    return StartOver(connection, channel, stream, xid);
  }
  Result<BoundSessions::StartedRequest, nfs4::nfsstat4> StartOver(uint64_t connection, uint32_t channel,
                                                                  uint32_t stream, uint32_t xid) {
    return sessions().StartRequest({.channelid = channel, .streamid = stream, .chainflags = nfs4::NOCHAIN},
                                   {.xid = rpc::Xid(xid), .digest = xid}, {.number = connection}, nullptr, now_);
  }
  // Executes a request whose reply has `octets`.
  void Keep(uint64_t session, uint32_t stream, size_t octets) {
    static const std::string text(1000, 'x');
    const auto started = Start(session, stream, ++xid_);
    ASSERT_TRUE(started);
    ASSERT_EQ(started->outcome, Outcome::kRun);
    sessions().FinishRequest(started->request,
                             {.reply = xdr::Message::Whole(Slice::Borrowed(AsBytes(text).first(octets)))}, now_);
  }
  void KeepAll(uint64_t session, size_t octets) {
    for (uint32_t stream = 0; stream < 8; ++stream) Keep(session, stream, octets);
  }
  std::vector<CreditRecall> Balance() {
    tables_.BalanceReplies(now_);
    return tables_.TakeOwed().credit_recalls;
  }
  BoundSessions& sessions() { return tables_.bound_sessions; }
  uint32_t Streams(uint64_t session) { return sessions().Find(session)->streams.count(); }

  BufferPool buffers_;
  const Dialect dialect_{kFactsOfSess01, {}};
  const rpc::Credential anybody_{};
  uint64_t connections_ = 0;
  uint32_t xid_ = 0;
  std::map<uint64_t, std::shared_ptr<TestBackChannel>> operations_;  // by session
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> channel_;        // the last connection and operations channel
};

// ---- the account of the kept replies ----

TEST_F(CreditRecallsTest, CountsTheKeptOctetsOfAllSessions) {
  const uint64_t first = Create("first", Back()), second = Create("second", nullptr);
  Keep(first, 0, 40);
  Keep(second, 3, 20);
  EXPECT_EQ(sessions().kept_octets(), 60u);
  Keep(first, 0, 8);
  EXPECT_EQ(sessions().kept_octets(), 28u);
  tables_.End(sessions().Find(second)->client, now_);
  EXPECT_EQ(sessions().kept_octets(), 8u);
}

TEST_F(CreditRecallsTest, SessionsThatCannotBeAskedDoNotLowerTheLimitOfOthers) {
  const uint64_t session = Create("without a back channel", nullptr);
  KeepAll(session, 100);
  EXPECT_THAT(Balance(), IsEmpty());
  EXPECT_EQ(tables_.slot_limit.get(), UINT32_MAX);
  EXPECT_EQ(sessions().kept_octets(), 800u) << "its client is there, so it keeps its replies";
}

TEST_F(CreditRecallsTest, RepliesOfAClientThatHasGoneAreForgotten) {
  const uint64_t session = Create("gone", nullptr);
  KeepAll(session, 100);
  operations_[session]->Disconnect();
  sessions().Sweep();
  Balance();
  EXPECT_EQ(sessions().kept_octets(), 800u) << "it may come back";
  now_ += settings_.lease + std::chrono::seconds(1);
  Balance();
  EXPECT_EQ(sessions().kept_octets(), 0u);
}

TEST_F(CreditRecallsTest, BothKindsOfSessionsHaveOneLimit) {
  const Opened other = Open("of RFC 8881");
  const uint64_t session = Create("of 2004", Back());
  Keep(session, 0, 60);
  EXPECT_THAT(Balance(), IsEmpty());
  ASSERT_TRUE(ClientsTest::Start(other.session, 0, 1));
  Finish(other.session, 0, 1,
         xdr::Message::Whole(Slice::Borrowed(AsBytes("a reply of more than forty octets, which is kept"))));
  EXPECT_THAT(Balance(), SizeIs(1));
}

TEST_F(CreditRecallsTest, TheReplacementOfARepetitionCountsItOnce) {
  const uint64_t session = Create("owner", nullptr, false);
  Keep(session, 0, 1);
  const auto [lost, named] = channel_[session];
  Bind(session, nfs4::OPERATION, Back());
  const auto [connection, channel] = channel_[session];
  const auto repetition = StartOver(connection, named, 0, xid_);
  ASSERT_TRUE(repetition);
  ASSERT_EQ(repetition->outcome, Outcome::kRun);
  const auto next = StartOver(connection, channel, 0, ++xid_);
  ASSERT_TRUE(next);
  EXPECT_STREQ(tables_.FindInconsistency(), nullptr);
  sessions().FinishRequest(repetition->request, {}, now_);
  sessions().FinishRequest(next->request, {}, now_);
}

TEST_F(CreditRecallsTest, NewSessionsHaveFewerStreamIdsWhileMemoryIsShort) {
  const uint64_t first = Create("first", Back());
  EXPECT_EQ(Streams(first), 8u);
  KeepAll(first, 20);
  EXPECT_THAT(Balance(), SizeIs(1));
  EXPECT_EQ(Streams(Create("second", nullptr)), 4u);
}

TEST_F(CreditRecallsTest, SessionsShareTheTotalOfSlots) {
  settings_.max_total_slots = 8;
  EXPECT_EQ(Streams(Create("first", nullptr)), 8u);
  Open("of RFC 8881");
  EXPECT_EQ(Streams(Create("second", nullptr)), 2u);
}

// ---- the choice of sessions ----

TEST_F(CreditRecallsTest, RecallsNothingWhileMemorySuffices) {
  Keep(Create("owner", Back()), 0, 100);
  EXPECT_THAT(Balance(), IsEmpty());
}

TEST_F(CreditRecallsTest, RecallsFromSessionsAboveTheirShareOnly) {
  const uint64_t large = Create("large", Back()), small = Create("small", Back());
  KeepAll(large, 20);
  Keep(small, 0, 30);
  const auto recalls = Balance();
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].session, large);
  EXPECT_EQ(recalls[0].target, 4u);
}

TEST_F(CreditRecallsTest, RecallsNothingWithoutABackChannel) {
  KeepAll(Create("owner", nullptr), 20);
  EXPECT_THAT(Balance(), IsEmpty());
}

TEST_F(CreditRecallsTest, NeverRecallsTheLastStreamId) {
  settings_.max_kept_octets = 0;
  const uint64_t session = Create("owner", Back());
  KeepAll(session, 20);
  std::vector<uint32_t> targets;
  for (int i = 0; i < 6; ++i, now_ += SlotLimit::kTimeToFollow) {
    for (const CreditRecall& recall : Balance()) {
      targets.push_back(recall.target);
      ASSERT_TRUE(sessions().BeginRecall(recall, now_));
      sessions().FinishRecall(recall);
    }
  }
  EXPECT_THAT(targets, ElementsAre(4, 2, 1));
  EXPECT_EQ(Streams(session), 1u);
  Keep(session, 0, 20);
}

TEST_F(CreditRecallsTest, RecallsAgainIfTheCallDidNotBegin) {
  const uint64_t session = Create("owner", Back());
  KeepAll(session, 20);
  EXPECT_THAT(Balance(), SizeIs(1));
  now_ += SlotLimit::kTimeToFollow;
  const auto recalls = Balance();
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].target, 2u);
  ASSERT_TRUE(sessions().BeginRecall(recalls[0], now_));
  now_ += SlotLimit::kTimeToFollow;
  EXPECT_THAT(Balance(), IsEmpty()) << "one call at a time";
}

TEST_F(CreditRecallsTest, AStreamIdNeverComesBack) {
  const uint64_t session = Create("owner", Back());
  KeepAll(session, 20);
  const auto recalls = Balance();
  ASSERT_THAT(recalls, SizeIs(1));
  sessions().FinishRecall(recalls[0]);
  for (uint32_t stream = 0; stream < 4; ++stream) Keep(session, stream, 1);
  now_ += SlotLimit::kTimeToFollow;
  EXPECT_THAT(Balance(), IsEmpty());
  EXPECT_EQ(Streams(session), 4u);
}

// ---- a recall ----

class OneRecallTest : public CreditRecallsTest {
 protected:
  OneRecallTest() : session_(Create("owner", back_)) {
    KeepAll(session_, 20);
    const auto recalls = Balance();
    EXPECT_THAT(recalls, SizeIs(1));
    recall_ = recalls.at(0);
  }

  const std::shared_ptr<TestBackChannel> back_ = Back();
  const uint64_t session_;
  CreditRecall recall_;
};

TEST_F(OneRecallTest, WithdrawsTheCreditsOfTheOperationsChannels) {
  const auto second = Back();
  EXPECT_EQ(Bind(session_, nfs4::OPERATION, second, 6), 6u);
  EXPECT_EQ(Bind(session_, nfs4::OPERATION, Back(), 4), 4u);  // has no more than the target
  const auto begun = sessions().BeginRecall(recall_, now_);
  ASSERT_TRUE(begun);
  EXPECT_THAT(begun->ways, ElementsAre(operations_[session_], second));
  EXPECT_EQ(begun->deadline, now_ + Duration(kLease) / 4);
  EXPECT_FALSE(sessions().BeginRecall(recall_, now_)) << "it has begun already";
}

TEST_F(OneRecallTest, LaterBindingsHaveNoMoreCreditsThanTheTarget) {
  ASSERT_TRUE(sessions().BeginRecall(recall_, now_));
  EXPECT_EQ(Bind(session_, nfs4::OPERATION, Back()), 4u);
  sessions().FinishRecall(recall_);
  EXPECT_EQ(Bind(session_, nfs4::OPERATION, Back()), 4u);
}

TEST_F(OneRecallTest, UntilTheAnswerAllStreamIdsAreValid) {
  ASSERT_TRUE(sessions().BeginRecall(recall_, now_));
  Keep(session_, 7, 20);
  EXPECT_EQ(Streams(session_), 8u);
  EXPECT_TRUE(sessions().OwesCredits(recall_));
}

TEST_F(OneRecallTest, TheAnswerDropsTheStreamIdsAndTheirReplies) {
  ASSERT_TRUE(sessions().BeginRecall(recall_, now_));
  sessions().FinishRecall(recall_);
  EXPECT_FALSE(sessions().OwesCredits(recall_));
  EXPECT_EQ(sessions().kept_octets(), 80u);
  EXPECT_EQ(Start(session_, 4, 100).error(), nfs4::NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Start(session_, 3, 4)->outcome, Outcome::kReplay);
}

TEST_F(OneRecallTest, ARepeatedAnswerChangesNothing) {
  sessions().FinishRecall(recall_);
  Keep(session_, 3, 10);
  sessions().FinishRecall(recall_);
  EXPECT_EQ(Streams(session_), 4u);
  EXPECT_EQ(sessions().kept_octets(), 70u);
}

// A retry that a client has sent before its answer, over another connection, and that comes late.
TEST_F(OneRecallTest, ALateRetryOnADroppedStreamIdIsNotExecuted) {
  const auto [first, named] = channel_[session_];
  Bind(session_, nfs4::OPERATION, Back());
  sessions().FinishRecall(recall_);
  const auto [second, own] = channel_[session_];
  EXPECT_EQ(StartOver(second, named, 7, 8).error(), nfs4::NFS4ERR_SESS01_BADSTREAM);
}

TEST_F(OneRecallTest, ARequestThatTheClientHasGivenUpEndsWithoutItsStreamId) {
  const auto abandoned = Start(session_, 7, 100);
  ASSERT_TRUE(abandoned);
  Bind(session_, nfs4::OPERATION, Back());
  const auto retry = StartOver(channel_[session_].first, 2, 7, 100);
  ASSERT_TRUE(retry);
  ASSERT_EQ(retry->outcome, Outcome::kWait);
  sessions().TakeEndedWaits();
  sessions().FinishRecall(recall_);
  EXPECT_THAT(sessions().TakeEndedWaits(), ElementsAre(retry->wait));
  EXPECT_EQ(StartOver(channel_[session_].first, 2, 7, 100).error(), nfs4::NFS4ERR_SESS01_BADSTREAM);
  EXPECT_STREQ(tables_.FindInconsistency(), nullptr);
  sessions().FinishRequest(abandoned->request, {.reply = xdr::Message()}, now_);
  EXPECT_EQ(sessions().kept_octets(), 80u);
}

TEST_F(OneRecallTest, ASilentClientIsDisconnectedAfterAQuarterOfTheLease) {
  const auto begun = sessions().BeginRecall(recall_, now_);
  ASSERT_TRUE(begun);
  now_ = begun->deadline - std::chrono::nanoseconds(1);
  tables_.Sweep(now_);
  EXPECT_THAT(sessions().TakeClosings(), IsEmpty());
  now_ = begun->deadline;
  tables_.Sweep(now_);
  std::vector<std::shared_ptr<rpc::BackChannel>> closed;
  for (const auto& each : sessions().TakeClosings()) closed.push_back(each.way);
  EXPECT_THAT(closed, ElementsAre(back_, operations_[session_]));
  EXPECT_FALSE(sessions().OwesCredits(recall_));
  // The session goes on.
  EXPECT_EQ(Bind(session_, nfs4::OPERATION, Back()), 4u);
  Keep(session_, 7, 20);
}

TEST_F(OneRecallTest, ALateAnswerCounts) {
  const auto begun = sessions().BeginRecall(recall_, now_);
  ASSERT_TRUE(begun);
  tables_.Sweep(begun->deadline);
  sessions().FinishRecall(recall_);
  EXPECT_EQ(Streams(session_), 4u);
}

TEST_F(OneRecallTest, AnAnsweredRecallHasNoDeadline) {
  const auto begun = sessions().BeginRecall(recall_, now_);
  ASSERT_TRUE(begun);
  sessions().FinishRecall(recall_);
  tables_.Sweep(begun->deadline);
  EXPECT_THAT(sessions().TakeClosings(), IsEmpty());
}

TEST_F(OneRecallTest, DoesNotBeginWithoutABackChannel) {
  back_->Disconnect();
  EXPECT_FALSE(sessions().BeginRecall(recall_, now_));
  // The client has another one by the next time.
  Bind(session_, nfs4::BACK, Back(), 2);
  now_ += SlotLimit::kTimeToFollow;
  EXPECT_THAT(Balance(), SizeIs(1));
}

TEST_F(OneRecallTest, TheEndOfTheSessionEndsItsRecall) {
  ASSERT_TRUE(sessions().BeginRecall(recall_, now_));
  tables_.End(recall_.client, now_);
  EXPECT_FALSE(sessions().OwesCredits(recall_));
  sessions().FinishRecall(recall_);
  EXPECT_EQ(sessions().kept_octets(), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v4::sess01
