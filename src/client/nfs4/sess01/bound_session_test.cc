// Tests of the session itself: set-up, lost connections and lost sessions.
#include "client/nfs4/sess01/bound_session.h"

#include "client/nfs4/sess01/bound_session_test_fixture.h"

namespace penstock::client::v4::sess01 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- set-up ----

TEST_F(BoundSessionTest, CreatesTheSessionThenBindsAndDestroysIt) {
  Establish();
  EXPECT_TRUE(Remove());
  Run(bound->Close());
  established = false;
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "destroy"));
}

// §2.6
TEST_F(BoundSessionTest, BindsTheFirstBackChannelBeforeTheFirstOperationsChannel) {
  options = {.channels = 2, .back = BackChannelPlace::kOwn};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "bind back", "bind operations", "bind operations"));
  EXPECT_EQ(server.open(), 3u);
}

TEST_F(BoundSessionTest, ASharedBackChannelHasTheFirstConnection) {
  options = {.channels = 2, .back = BackChannelPlace::kShared};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "bind back", "bind operations", "bind operations"));
  EXPECT_EQ(server.open(), 2u);
}

TEST_F(BoundSessionTest, WaitsWhileTheServerIsBusy) {
  server.create_errors = {nfsstat4::NFS4ERR_DELAY};
  server.bind_errors = {nfsstat4::NFS4ERR_DELAY};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "create", "bind operations", "bind operations"));
}

TEST_F(BoundSessionTest, ReportsARefusal) {
  server.create_errors = {nfsstat4::NFS4ERR_CLID_INUSE};
  EXPECT_THAT(TryToEstablish().error().message, HasSubstr("a client with the same name"));
}

TEST_F(BoundSessionTest, BindsAChannelThatTheServerRefusesOnceOverANewConnection) {
  options.channels = 2;
  server.bind_errors = {nfsstat4::NFS4_OK, nfsstat4::NFS4ERR_SESS01_BADBIND};
  EXPECT_TRUE(TryToEstablish());
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "bind operations", "bind operations"));
}

TEST_F(BoundSessionTest, SaysThatTheServerDoesNotKnowTheDraft) {
  server.is_unknown = true;
  const Result<void> result = TryToEstablish();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "server: the server does not offer the sessions of 2004");
  EXPECT_EQ(result.error().status, Status::kVersionMismatch);
}

TEST_F(BoundSessionTest, RefusesLimitsWithWhichNoClientCanWork) {
  using Granted = nfs4::SESSIONBIND4resok;
  const std::vector<std::pair<std::function<void(Granted&)>, std::string>> cases{
      {[](Granted& given) { given.maxrequests = 0; }, "no requests"},
      {[](Granted& given) { given.maxrequestsize = 100; }, "only 100 octets"},
      {[](Granted& given) { given.maxresponsesize = 3; }, "only 3 octets"},
      {[](Granted& given) { given.headerpadsize = 64; }, "padding"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\x09", 4)); }, "malformed"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\1", 16)); },
       "RDMA mode"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\7", 16)); },
       "no known mode"}};
  for (const auto& [grant, text] : cases) {
    server.grant = grant;
    const Result<void> result = TryToEstablish();
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error().message, HasSubstr(text));
    TurnFor(loop, 1ms);
    bound.reset();
    channel.reset();
    TurnFor(loop, 1ms);
  }
}

// §2.2.4: a size of zero means no limit.
TEST_F(BoundSessionTest, ASizeOfZeroKeepsTheSizeThatWasAskedFor) {
  server.grant = [](nfs4::SESSIONBIND4resok& given) { given.maxrequestsize = given.maxresponsesize = 0; };
  Establish();
  EXPECT_EQ(bound->max_request(), 1u << 20);
  EXPECT_EQ(bound->max_response(), 1u << 20);
}

// ---- lost connections ----

TEST_F(BoundSessionTest, SendsARequestWithoutReplyAgainOverANewConnection) {
  Establish();
  EXPECT_EQ(bound->reconnections(), 0u);
  server.faults = {Fault::kReplyLost};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1) << "the server has recognized the retry";
  EXPECT_EQ(server.replays, 1);
  server.faults = {Fault::kCallLost};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "bind operations", "bind operations"));
  EXPECT_EQ(bound->reconnections(), 2u);
}

TEST_F(BoundSessionTest, BindsALostBackChannelAgainAtOnce) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  const auto before = server.back_channel();
  server.LoseConnections();
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.back_channel() > before; }));
}

TEST_F(BoundSessionTest, ASharedBackChannelThatTheServerStillBelievesInIsBoundLater) {
  options.back = BackChannelPlace::kShared;
  Establish();
  server.bind_errors = {nfsstat4::NFS4ERR_SESS01_BADBIND};
  server.LoseConnections();
  EXPECT_TRUE(Remove());
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.back_channel().has_value(); }));
}

TEST_F(BoundSessionTest, OffersTheSameSizesAgainAndRefusesSmallerOnes) {
  Establish();
  server.size = 4096;
  server.LoseConnections();
  Outcome outcome;
  Start(std::tuple(nfs4::REMOVE4args{"name"}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.binds.size() >= 4; }));
  EXPECT_FALSE(outcome);
  EXPECT_THAT(bound->trouble().message, HasSubstr("smaller messages"));
  server.size = 1 << 20;
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome);
  for (const auto& each : server.binds) EXPECT_EQ(each.maxrequestsize, 1u << 20);
}

// ---- lost sessions ----

TEST_F(BoundSessionTest, MakesANewSessionIfTheServerHasForgottenIt) {
  options = {.channels = 2, .back = BackChannelPlace::kOwn};
  Establish();
  const uint64_t epoch = bound->epoch();
  for (const bool closes : {true, false}) {
    server.events.clear();
    server.LoseSession(closes);
    EXPECT_TRUE(Remove());
    EXPECT_EQ(std::ranges::count(server.events, "create"), 1);
    EXPECT_EQ(server.open(), 3u);
  }
  EXPECT_EQ(server.removes, 2);
  EXPECT_GT(bound->epoch(), epoch);
  EXPECT_EQ(reclaims, 3);
}

TEST_F(BoundSessionTest, ManyRequestsSurviveTheLossOfTheSession) {
  options.channels = 3;
  server.latency = 1ms;
  Establish();
  StartRemoves(40);
  TurnFor(loop, 1ms);
  server.LoseSession(true);
  ASSERT_TRUE(TurnUntil(
      loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
  // The requests that were under way may have been executed. The other ones are executed once.
  const auto succeeded = std::ranges::count_if(outcomes, [](const Outcome& each) { return each->has_value(); });
  EXPECT_GE(succeeded, 40 - 8);
  EXPECT_GE(server.removes, succeeded);
  EXPECT_LE(server.removes, 40);
}

TEST_F(BoundSessionTest, ReclaimsInTheSameSessionIfTheServerHasRestarted) {
  Establish();
  server.instance = 2;
  server.LoseConnections();
  EXPECT_TRUE(TurnUntil(loop, [&] { return reclaims == 2; }));
  EXPECT_TRUE(Remove());
  EXPECT_EQ(std::ranges::count(server.events, "create"), 1);
}

TEST_F(BoundSessionTest, AReclaimThatASecondRestartInterruptsIsRepeated) {
  Establish();
  std::vector<nfsstat4> statuses;
  bound->set_reclaim([&]() -> Task<> {
    if (statuses.empty()) {
      server.instance = 3;
      server.faults = {Fault::kCallLost};
      server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
    }
    const auto build = [] { return std::tuple(nfs4::REMOVE4args{"name"}); };
    const auto reply = co_await bound->ReclaimCall(build, "reclaiming");
    EXPECT_TRUE(reply);
    if (reply) statuses.push_back(reply->status);
  });
  server.instance = 2;
  server.LoseConnections();
  EXPECT_TRUE(TurnUntil(loop, [&] { return statuses.size() == 2; }));
  EXPECT_THAT(statuses, ElementsAre(nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4_OK));
}

// ---- the end without the server (client::Mount::Abort) ----

TEST_F(BoundSessionTest, ACancellationEndsAllRequests) {
  options = {.channels = 3, .back = BackChannelPlace::kOwn};
  Establish();
  server.holds_calls = true;
  const int before = server.removes;
  StartRemoves(50);
  TurnFor(loop, 1ms);
  ending.Cancel();
  ASSERT_TRUE(TurnUntil(
      loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
  for (const Outcome& each : outcomes) {
    ASSERT_FALSE(*each);
    EXPECT_EQ(each->error().number, ECANCELED) << each->error().message;
  }
  const int controls = server.controls;
  Outcome later;
  Start(std::tuple(nfs4::REMOVE4args{"name"}), later);
  ASSERT_TRUE(later.has_value()) << "later requests fail at once";
  EXPECT_EQ(later->error().number, ECANCELED);
  Run(bound->Close());
  TurnFor(loop, 1ms);
  established = false;
  EXPECT_EQ(server.controls, controls);
  EXPECT_EQ(server.removes, before);
  EXPECT_THAT(server.events, testing::Not(testing::Contains("destroy")));
  EXPECT_EQ(bound->trouble().message, "the mount is closing");
}

TEST_F(BoundSessionTest, ACancellationEndsTheRecovery) {
  Establish();
  server.create_errors.assign(1000, nfsstat4::NFS4ERR_DELAY);
  server.LoseSession(true);
  StartRemoves(3);
  TurnFor(loop, 5ms);
  ending.Cancel();
  ASSERT_TRUE(TurnUntil(
      loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
  for (const Outcome& each : outcomes) {
    ASSERT_FALSE(*each);
    EXPECT_EQ(each->error().number, ECANCELED) << each->error().message;
  }
  EXPECT_GT(server.create_errors.size(), 900u);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
