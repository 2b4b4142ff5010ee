// The sessions of 2004 as COMPOUNDs: SESSION_CREATE and SESSION_DESTROY. bound_persistence_test.cc tests the sessions
// that outlive the server.
#include <chrono>

#include "nfs/v4/engine/bound_client_test.h"

namespace penstock::nfs::v4 {
namespace {

// ---- SESSION_CREATE ----

TEST_F(BoundSessionTest, ARepeatedCreationGivesTheSameSession) {
  const auto created = RunOver(first, SessionCreate("owner", 3)).Next<SESSIONCREATE4res>();
  ASSERT_EQ(created.status(), NFS4_OK);
  EXPECT_NE(created.resok4().sessionid, 0u);
  EXPECT_EQ(created.resok4().totalrequests, 3u);
  const auto again = RunOver(second, SessionCreate("owner", 3)).Next<SESSIONCREATE4res>();
  EXPECT_EQ(again.resok4().sessionid, created.resok4().sessionid);
}

TEST_F(BoundSessionTest, RefusesASecondCreationOverAConnection) {
  Create(first, "one");
  EXPECT_EQ(RunOver(first, SessionCreate("two")).status, NFS4ERR_SESS01_BADBIND);
  BindOperations(first, Create(first, "one"));
  EXPECT_EQ(RunOver(first, SessionCreate("two")).status, NFS4ERR_SESS01_BADBIND);
}

TEST_F(BoundSessionTest, RefusesACreationWithCompany) {
  EXPECT_EQ(RunOver(first, SessionCreate("owner"), PutRoot()).status, NFS4ERR_SESS01_CONTROL_POS);
}

TEST_F(BoundSessionTest, RefusesTheNameOfALiveClientToAnotherPrincipal) {
  BindOperations(first, Create(first, "owner"));
  server.SetUser(7);
  EXPECT_EQ(RunOver(second, SessionCreate("owner")).status, NFS4ERR_CLID_INUSE);
}

TEST_F(BoundSessionTest, RefusesTheNameOfAnUnboundSessionToAnotherPrincipal) {
  const uint64_t session = Create(first, "owner");
  server.SetUser(7);
  EXPECT_EQ(RunOver(second, SessionCreate("owner")).status, NFS4ERR_CLID_INUSE);
  server.SetUser(0);
  BindOperations(first, session);
}

TEST_F(BoundSessionTest, AnotherPrincipalMayHaveTheNameAfterTheLease) {
  Create(first, "owner");
  server.SetUser(7);
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  EXPECT_EQ(RunOver(second, SessionCreate("owner")).status, NFS4_OK);
}

TEST_F(BoundSessionTest, TheFirstBindingOfANewIncarnationEndsTheOldSession) {
  const uint64_t old = Create(first, "owner", 1);
  const uint32_t channel = BindOperations(first, old);
  const uint64_t young = Create(second, "owner", 2);
  EXPECT_NE(young, old);
  Request(first, Control(channel, 0), PutRoot());
  BindOperations(second, young);
  EXPECT_FALSE(first.way->connected());
  EXPECT_EQ(RunOver(first, Control(channel, 1), PutRoot()).status, NFS4ERR_SESS01_NOT_BOUND);
  TestConnection third(server.buffers);
  EXPECT_EQ(Bind(third, BindArguments(old)).status(), NFS4ERR_SESS01_BADSESSION);
}

// ---- SESSION_DESTROY ----

TEST_F(BoundSessionTest, DestroyingASessionClosesItsOtherConnections) {
  const uint64_t session = Create(first, "owner");
  const uint32_t channel = BindOperations(first, session);
  BindOperations(second, session);
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  EXPECT_TRUE(first.way->connected());
  EXPECT_FALSE(second.way->connected());
  EXPECT_EQ(RunOver(first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4ERR_SESS01_NOT_BOUND);
  EXPECT_EQ(server.state.Run([](StateTables& state) { return state.clients.client_count(); }), 0u);
}

// A binding never changes, and a connection creates one session.
TEST_F(BoundSessionTest, AConnectionOfADestroyedSessionBelongsToNoOther) {
  TestConnection creator(server.buffers);
  const uint64_t session = Create(creator, "owner");
  const uint32_t channel = BindOperations(first, session);
  const uint64_t other = Create(second, "other");
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  for (TestConnection* connection : {&first, &creator}) {
    EXPECT_EQ(RunOver(*connection, SessionCreate("owner")).status, NFS4ERR_SESS01_BADBIND);
    EXPECT_EQ(Bind(*connection, BindArguments(other)).status(), NFS4ERR_SESS01_BADBIND);
  }
  TestConnection third(server.buffers);
  BindOperations(third, Create(third, "owner"));
}

TEST_F(BoundSessionTest, SessionDestroyStandsLast) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(RunOver(first, Op(OP_SESSION_DESTROY)).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY), PutRoot()).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(Request(first, Control(channel, 0), PutRoot(), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
}

TEST_F(BoundSessionTest, SessionDestroyNeedsABoundConnection) {
  Create(first, "owner");
  EXPECT_EQ(RunOver(first, Op(OP_SESSION_DESTROY)).status, NFS4ERR_SESS01_NOT_BOUND);
}

TEST_F(BoundSessionTest, AnotherPrincipalMayNotDestroyTheSession) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  server.SetUser(7);
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4ERR_ACCESS);
}

}  // namespace
}  // namespace penstock::nfs::v4
