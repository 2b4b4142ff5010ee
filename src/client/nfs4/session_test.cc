// Tests of how a session is established, used, lost and reclaimed.
#include "client/nfs4/session.h"

#include <gtest/gtest.h>

#include <optional>
#include <ranges>
#include <tuple>
#include <vector>

#include "base/signal.h"
#include "client/nfs4/session_test_fixture.h"
#include "nfs_protocol/number_set.h"

namespace penstock::client::v4 {
namespace {

TEST_F(SessionTest, EstablishesAndDestroysASession) {
  Establish();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.reclaims_completed, 1);
  Run(session.Close());
  EXPECT_EQ(server.destroyed, 2);
}

// RFC 8881 §18.35.3
TEST_F(SessionTest, TellsTheServerThatItFollowsReferrals) {
  Establish();
  EXPECT_EQ(server.exchange_flags, nfs4::EXCHGID4_FLAG_USE_NON_PNFS | nfs4::EXCHGID4_FLAG_SUPP_MOVED_REFER);
}

// RFC 8881 §18.35.3
TEST_F(SessionTest, AsksForNoProtectionOfItsStateIfItsCallsHaveNone) {
  Establish();
  EXPECT_EQ(server.exchange_protection.spa_how(), nfs4::SP4_NONE);
}

class ProtectedSessionTest : public SessionTest {
 protected:
  CallerOptions Protecting() {
    CallerOptions protecting = options;
    protecting.security = &security;
    return protecting;
  }
  static Url Protected() {
    Url url;
    url.security = nfs_protocol::SecurityFlavor::kKrb5i;
    return url;
  }
  ~ProtectedSessionTest() override {
    Run(protected_session.Close());
    workers.Join();
  }

  bool EstablishProtected() {
    bool established = false;
    Run([](Session& session, bool& out) -> Task<void> {
      const auto result = co_await session.Establish("server");
      out = result.has_value();
    }(protected_session, established));
    return established;
  }

  Workers workers{1};
  const Url url = Protected();
  CallSecurity security{loop, workers, url, {}};
  Session protected_session{loop, client, Protecting()};
};

// RFC 8881 §2.10.8.3
TEST_F(ProtectedSessionTest, LetsOnlyItsPrincipalManageItsState) {
  EXPECT_TRUE(EstablishProtected());
  ASSERT_TRUE(server.exchange_protection.is_spa_mach_ops());
  const nfs4::state_protect_ops4& asked = server.exchange_protection.spa_mach_ops();
  const nfs_protocol::NumberSet<nfs4::nfs_opnum4> enforced(asked.spo_must_enforce);
  const nfs_protocol::NumberSet<nfs4::nfs_opnum4> wanted{nfs4::OP_BIND_CONN_TO_SESSION, nfs4::OP_EXCHANGE_ID,
                                                         nfs4::OP_CREATE_SESSION, nfs4::OP_DESTROY_SESSION,
                                                         nfs4::OP_DESTROY_CLIENTID};
  EXPECT_EQ(enforced, wanted);
  EXPECT_TRUE(asked.spo_must_allow.empty());
}

// RFC 8881 §2.10.8.3: another session would lose the reply of a request that the server has executed.
TEST_F(ProtectedSessionTest, BindsAConnectionThatIsNotBoundAndRepeatsTheRequest) {
  server.protects = true;
  bool removed = false;
  Run([](Session& session, FakeServer& fake, bool& out) -> Task<void> {
    (void)co_await session.Establish("server");
    fake.unbound = 2;
    const auto reply = co_await session.Call([] { return std::tuple(nfs4::REMOVE4args{"name"}); }, "name");
    out = reply.has_value();
  }(protected_session, server, removed));
  EXPECT_TRUE(removed);
  EXPECT_EQ(server.binds, 2);
  EXPECT_EQ(server.creations, 1);
  EXPECT_EQ(server.removes, 1);
}

TEST_F(ProtectedSessionTest, MakesAnotherSessionIfTheServerBindsNoConnection) {
  server.protects = true;
  bool removed = false;
  Run([](Session& session, FakeServer& fake, bool& out) -> Task<void> {
    (void)co_await session.Establish("server");
    fake.unbound = 4;
    const auto reply = co_await session.Call([] { return std::tuple(nfs4::REMOVE4args{"name"}); }, "name");
    out = reply.has_value();
  }(protected_session, server, removed));
  EXPECT_TRUE(removed);
  EXPECT_EQ(server.creations, 2);
}

// Linux's server fails if it does not know the principal of a context.
TEST_F(ProtectedSessionTest, GoesWithoutProtectionIfTheServerCannotProtectItsState) {
  server.cannot_protect = true;
  EXPECT_TRUE(EstablishProtected());
  EXPECT_EQ(server.exchanges, 2);
  EXPECT_EQ(server.exchange_protection.spa_how(), nfs4::SP4_NONE);
}

// RFC 8881 §18.36.3
class PersistenceTest : public SessionTest, public testing::WithParamInterface<bool> {
 protected:
  PersistenceTest() : SessionTest({.owner = "client", .persist = GetParam(), .give_up_after = kTestPatience / 2}) {}
};

TEST_P(PersistenceTest, AsksForAPersistentSessionIfTheUserWantsIt) {
  Establish();
  EXPECT_EQ((server.create_flags & nfs4::CREATE_SESSION4_FLAG_PERSIST) != 0, GetParam());
  EXPECT_NE(server.create_flags & nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN, 0u);
}

// RFC 8881 §18.16.3: exclusive creations depend on it.
TEST_P(PersistenceTest, KnowsWhetherTheServerKeepsReplies) {
  server.grants = nfs4::CREATE_SESSION4_FLAG_PERSIST;
  Establish();
  EXPECT_EQ(session.keeps_replies(), GetParam());
  server.grants = 0;
  server.Restart();
  EXPECT_TRUE(Remove());
  EXPECT_FALSE(session.keeps_replies()) << "the next session is another one";
}

class NoCallbacksTest : public SessionTest {
 protected:
  NoCallbacksTest() : SessionTest({.owner = "client", .callbacks = false, .give_up_after = kTestPatience / 2}) {}
};

TEST_F(NoCallbacksTest, AsksForNoBackchannelIfTheClientAnswersNoCalls) {
  Establish();
  EXPECT_EQ(server.create_flags & nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, PersistenceTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "wanted" : "unwanted"; });

// RFC 8881 §18.35.3
class ServersByNameTest : public SessionTest, public testing::WithParamInterface<bool> {};

TEST_P(ServersByNameTest, IgnoresTheNameOfTheServersImplementation) {
  if (GetParam()) server.implementation = {.nii_domain = "example.org", .nii_name = "a server", .nii_date = {}};
  Establish();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.exchanges, 1);
  EXPECT_EQ(server.creations, 1);
}

INSTANTIATE_TEST_SUITE_P(All, ServersByNameTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "named" : "unnamed"; });

TEST_F(SessionTest, RepeatsACallThatTheServerDelays) {
  Establish();
  server.remove_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_GRACE};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

TEST_F(SessionTest, ReturnsOtherErrorsToTheCaller) {
  Establish();
  server.remove_errors = {nfsstat4::NFS4ERR_NOENT};
  const Result<void> result = Remove();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, Status::kNotFound);
  EXPECT_EQ(result.error().message, "name: no such file or directory");
}

TEST_F(SessionTest, CreatesALostSessionAgainOnce) {
  server.latency = 2ms;
  Establish();
  server.LoseSessions();
  StartRemoves(6);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 6);
  EXPECT_EQ(server.creations, 2);
  EXPECT_EQ(server.exchanges, 1);
}

// RFC 8881 §8.4.2.1
TEST_F(SessionTest, ReclaimsStateBeforeOtherCallsAfterARestart) {
  int reclaims = 0;
  session.set_reclaim([&]() -> Task<void> {
    EXPECT_EQ(server.reclaims_completed, reclaims);
    ++reclaims;
    co_return;
  });
  Establish();
  EXPECT_EQ(reclaims, 1);
  server.Restart();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(reclaims, 2);
  EXPECT_EQ(server.reclaims_completed, 2);
  EXPECT_EQ(server.exchanges, 2);
  EXPECT_EQ(server.removes, 1);
}

// The state that they use may be lost, or not yet reclaimed.
TEST_F(SessionTest, CallsThatWaitForASlotAlsoWaitForTheReclaim) {
  session.set_reclaim([&]() -> Task<void> { co_await Sleep(loop, 5ms); });
  server.slots = 2;
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate};
  outcomes = std::vector<Outcome>(200);
  StartRemove(outcomes[0]);
  server.latency = 2ms;
  for (Outcome& outcome : outcomes | std::views::drop(1)) StartRemove(outcome);
  server.Restart();
  TurnUntil([&] { return server.reclaims_completed == 2; });
  server.late.Notify();
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 200);
  EXPECT_EQ(server.early_removes, 0);
}

TEST_F(SessionTest, RepeatsAReclaimThatTheServerDelays) {
  std::vector<Reclaimed> reclaimed;
  session.set_reclaim([&]() -> Task<void> {
    const auto build = [] { return std::tuple(nfs4::REMOVE4args{"name"}); };
    const auto reply = co_await session.ReclaimCall(build, "name");
    if (reply) reclaimed.push_back(ReclaimedBy(reply->status));
  });
  server.remove_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_DELAY};
  Establish();
  EXPECT_EQ(reclaimed, std::vector{Reclaimed::kYes});
  EXPECT_EQ(server.removes, 1);

  server.remove_errors = {nfsstat4::NFS4ERR_NO_GRACE};
  server.Restart();
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(reclaimed, (std::vector{Reclaimed::kYes, Reclaimed::kNo}));
}

TEST_F(SessionTest, ReclaimsLaterIfTheSessionIsLostAgain) {
  std::vector<Reclaimed> reclaimed;
  session.set_reclaim([&]() -> Task<void> {
    if (reclaimed.size() < 2) server.Restart();
    const auto build = [] { return std::tuple(nfs4::REMOVE4args{"name"}); };
    const auto reply = co_await session.ReclaimCall(build, "name");
    if (reply) reclaimed.push_back(ReclaimedBy(reply->status));
  });
  Establish();
  EXPECT_EQ(reclaimed, (std::vector{Reclaimed::kLater, Reclaimed::kLater, Reclaimed::kYes}));
  EXPECT_EQ(server.removes, 1);
}

// RFC 8881 §2.10.6.5: the late reply describes the state before the restart. The reclaimed state is different.
TEST_F(SessionTest, RepeatsAChangeOfStateThatTheServerHasLost) {
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate, FakeServer::Fault::kReplyLate};
  Outcome closed;
  Outcome removed;
  Start(nfs4::CLOSE4args{}, closed);
  StartRemove(removed);
  server.Restart();
  EXPECT_TRUE(Lookup());
  server.late.Notify();
  TurnUntil([&] { return closed.has_value() && removed.has_value(); });
  EXPECT_TRUE(*closed);
  EXPECT_EQ(server.closes, 2);
  EXPECT_TRUE(*removed);
  EXPECT_EQ(server.removes, 1) << "REMOVE changes no state of the client";
}

TEST_F(SessionTest, BindsAConnectionWhoseServerCannotCallBack) {
  Establish();
  server.status_flags = nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;
  EXPECT_TRUE(Remove());
  TurnUntil([&] { return server.binds == 1; });
  // The server still cannot call back. The client waits before it binds the connection again.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Remove());
  EXPECT_EQ(server.binds, 1);
}

TEST_F(SessionTest, CreatesAnotherSessionAfterABackChannelFault) {
  Establish();
  server.faults = {FakeServer::Fault::kReplyLate};
  Outcome late;
  StartRemove(late);
  server.status_flags = nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT;
  EXPECT_TRUE(Remove());
  server.status_flags = 0;
  Outcome next;
  StartRemove(next);
  Turn(20ms);
  EXPECT_FALSE(next) << "no new request is sent";
  EXPECT_EQ(server.destroyed, 0) << "not before all requests have replies";
  server.late.Notify();
  TurnUntil([&] { return late.has_value() && next.has_value(); });
  EXPECT_TRUE(*late);
  EXPECT_TRUE(*next);
  EXPECT_EQ(server.destroyed, 1);
  EXPECT_EQ(server.creations, 2);
  EXPECT_EQ(server.removes, 3);
}

TEST_F(SessionTest, RenewsItsLease) {
  Establish();
  const int before = server.sequences;
  session.set_lease_time(20ms);  // the client renews it at most once a second
  TurnUntil([&] { return server.sequences > before; });
  EXPECT_EQ(server.removes, 0);
}

class RestingSessionTest : public SessionTest {
 protected:
  RestingSessionTest() : SessionTest({.owner = "client", .give_up_after = kTestPatience / 2, .rest_after = 10ms}) {}

  // The client would renew the lease once a second.
  void EstablishForShort(bool has_state) {
    Establish();
    session.set_may_rest([has_state] { return !has_state; });
    session.set_lease_time(20ms);
  }
  void ExpectRenewal() {
    const int before = server.sequences;
    TurnUntil([&] { return server.sequences > before; });
  }
};

TEST_F(RestingSessionTest, RenewsItsLeaseWhileItHasState) {
  EstablishForShort(true);
  ExpectRenewal();
}

TEST_F(RestingSessionTest, SendsNothingWithoutStateAndUse) {
  EstablishForShort(false);
  const int before = server.sequences;
  Turn(2500ms);
  EXPECT_EQ(server.sequences, before);
}

class LaterRestingSessionTest : public SessionTest {
 protected:
  LaterRestingSessionTest()
      : SessionTest({.owner = "client", .give_up_after = kTestPatience / 2, .rest_after = 1500ms}) {}
};

TEST_F(LaterRestingSessionTest, ARenewalIsNoUse) {
  Establish();
  session.set_may_rest([] { return true; });
  session.set_lease_time(20ms);
  const int before = server.sequences;
  TurnUntil([&] { return server.sequences > before; });
  Turn(3500ms);
  EXPECT_LE(server.sequences, before + 2) << "it rests after one or two renewals, one a second";
}

TEST_F(RestingSessionTest, EstablishesWhatTheServerHasForgottenWhenItIsUsed) {
  EstablishForShort(false);
  Turn(1200ms);
  server.Restart();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  session.set_may_rest([] { return false; });
  ExpectRenewal();
}

TEST_F(RestingSessionTest, DoesNotRestWhileACallIsUnderWay) {
  EstablishForShort(false);
  server.faults = {FakeServer::Fault::kReplyLate};
  Outcome result;
  StartRemove(result);
  ExpectRenewal();
  server.late.Notify();
  TurnUntil([&] { return result.has_value(); });
}

TEST_F(SessionTest, ReportsWhyTheServerRefusesASession) {
  server.create_errors = {nfsstat4::NFS4ERR_NOSPC};
  Outcome result;
  Spawn([](Session& s, Outcome& out) -> Task<void> { out = co_await s.Establish("server"); }(session, result));
  TurnUntil([&] { return result.has_value(); });
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().status, Status::kNoSpace);
}

}  // namespace
}  // namespace penstock::client::v4
