// The functions of lease.h, which update the state tables together with the recovery store.
#include "nfs/v4/operations/lease.h"

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/engine/bound_client_test.h"
#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

// Passes no loop, so that the tasks complete at once.
class LeaseTest : public Nfs4Test {
 protected:
  LeaseTest() { Client(); }
  nfsstat4 Record(ClientId client) { return Now(RecordClient(server.GetServices(), nullptr, client)); }
  bool Forget(ClientId client) { return Now(ForgetExpired(server.GetServices(), nullptr, client)); }
  void BeginGrace(const std::string& owner) {
    const Principal root{rpc::AuthFlavor::AUTH_SYS, 0};
    server.state.Run([&](StateTables& state) {
      state.clients.grace() =
          Grace({{OwnerKey(DialectOf(1), owner), root}}, server.clock.Now() + server.settings.grace);
    });
  }
  bool InGrace() {
    return server.state.Run([&](StateTables& state) { return state.clients.InGrace(); });
  }
  bool& full() { return server.recovery_store->full; }
};

TEST_F(LeaseTest, RecordsAClientAtReclaimComplete) {
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.clients.NeedsRecord(Client().client()); }));
  EXPECT_EQ(server.recovery_store->Reclaimers(), std::vector{OwnerKey(DialectOf(1), "client")});
}

TEST_F(LeaseTest, RefusesTheFirstOpenOfAClientThatCannotBeRecorded) {
  full() = true;
  SessionClient late(server, "late");
  EXPECT_EQ(Record(late.client()), NFS4ERR_SERVERFAULT);
  full() = false;
  EXPECT_EQ(Record(late.client()), NFS4_OK);
  EXPECT_EQ(Record(late.client()), NFS4_OK);
  EXPECT_THAT(server.recovery_store->Reclaimers(), testing::Contains(OwnerKey(DialectOf(1), "late")));
}

// RFC 8881 §8.4.3: the first edge condition.
TEST_F(LeaseTest, ClientThatLostItsStateMayNotReclaim) {
  EXPECT_FALSE(Forget(Client().client()));
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  EXPECT_TRUE(Forget(Client().client()));
  EXPECT_TRUE(server.recovery_store->Reclaimers().empty());
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
  EXPECT_TRUE(Forget(Client().client()));
}

TEST_F(LeaseTest, AnEvictedClientIsGoneWithItsRecordAlthoughItsLeaseIsValid) {
  EXPECT_TRUE(Now(EvictClient(server.GetServices(), nullptr, Client().client())));
  EXPECT_TRUE(server.recovery_store->Reclaimers().empty());
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
  EXPECT_FALSE(Now(EvictClient(server.GetServices(), nullptr, Client().client()))) << "it is gone";
}

TEST_F(LeaseTest, AClientWhoseRecordCannotBeRemovedIsNotEvicted) {
  full() = true;
  EXPECT_FALSE(Now(EvictClient(server.GetServices(), nullptr, Client().client())));
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4_OK);
}

TEST_F(LeaseTest, AClientThatIsEvictedInTheGracePeriodMayNotReclaim) {
  BeginGrace("client");
  EXPECT_TRUE(Now(EvictClient(server.GetServices(), nullptr, Client().client())));
  server.state.Run([&](StateTables& state) {
    EXPECT_FALSE(state.clients.grace().Knew(OwnerKey(DialectOf(1), "client"), {rpc::AuthFlavor::AUTH_SYS, 0}));
  });
}

TEST_F(LeaseTest, KeepsStateIfTheStoreCannotRemoveTheClient) {
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  full() = true;
  EXPECT_FALSE(Forget(Client().client()));
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4_OK);
}

TEST_F(LeaseTest, GraceEndsInTimeButNotBeforeTheStoreIsUpdated) {
  BeginGrace("somebody");
  Spawn(EndGraceIfDue(server.GetServices(), nullptr));
  EXPECT_TRUE(InGrace());
  server.clock.now += server.settings.grace;
  full() = true;
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_TRUE(InGrace());
  EXPECT_FALSE(server.state.Run([](StateTables& state) { return state.clients.grace().is_open(); }))
      << "the store may have forgotten the client";
  full() = false;
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_FALSE(InGrace());
}

// The end of the grace period removes the client's old record. The client holds reclaimed state, so it needs a new
// record.
TEST_F(LeaseTest, RecordsAHolderBeforeGraceEndsIfItsReclaimWasNotRecorded) {
  BeginGrace("late");
  full() = true;
  SessionClient late(server, "late");
  EXPECT_TRUE(InGrace());
  const NamedFile root = server.exports.table().all().front()->Name(tree.Root());
  server.state.Run([&](StateTables& state) {
    state.files.delegations.ReclaimDelegation(late.client(), root, {.write = false}, true, DialectOf(2), Principal(),
                                              server.clock.Now());
  });
  full() = false;
  Spawn(EndGraceIfDue(server.GetServices(), nullptr));
  EXPECT_FALSE(InGrace());
  EXPECT_THAT(server.recovery_store->Reclaimers(), testing::Contains(OwnerKey(DialectOf(1), "late")));
}

// All other clients wait for the end of the period, also those of other servers of a cluster.
TEST_F(LeaseTest, AHolderThatCannotBeRecordedDelaysTheEndOfGraceForALeaseOnly) {
  BeginGrace("late");
  full() = true;
  SessionClient late(server, "late");
  full() = false;
  server.recovery_store->refuses_records = true;
  const NamedFile root = server.exports.table().all().front()->Name(tree.Root());
  server.state.Run([&](StateTables& state) {
    state.files.delegations.ReclaimDelegation(late.client(), root, {.write = false}, true, DialectOf(2), Principal(),
                                              server.clock.Now());
  });
  Spawn(EndGraceIfDue(server.GetServices(), nullptr));
  EXPECT_TRUE(InGrace());
  server.clock.now += server.settings.lease;
  Spawn(EndGraceIfDue(server.GetServices(), nullptr));
  EXPECT_FALSE(InGrace());
  EXPECT_THAT(server.recovery_store->Reclaimers(), testing::Not(testing::Contains(OwnerKey(DialectOf(1), "late"))));
}

TEST_F(LeaseTest, GraceEndsWhenTheLastClientHasReclaimed) {
  BeginGrace("late");
  EXPECT_TRUE(InGrace());
  SessionClient late(server, "late");  // sends RECLAIM_COMPLETE at once
  EXPECT_FALSE(InGrace());
}

TEST_F(LeaseTest, RemovesClientsAfterTheCourtesyPeriod) {
  const ClientId client = Client().client();
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.clients.Has(client); }));
}

// RFC 8881 §20.8
class SlotRecallTest : public Nfs4Test {
 protected:
  SlotRecallTest() : Nfs4Test(Settings{.max_slots = 4, .max_kept_octets = 0}) {}
};

TEST_F(SlotRecallTest, RecallsSlotsIfMemoryIsShort) {
  const SessionId session = Client().session();
  const auto channel = std::make_shared<TestBackChannel>(server.buffers);
  EXPECT_TRUE(server.state.Run(
      [&](StateTables& state) { return state.sessions.Bind(session, {99, channel}, CDFC4_BACK, {}); }));
  EXPECT_EQ(server.Run(2, Client().Sequence(true), PutRoot()).status, NFS4_OK);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_THAT(server.callbacks.slots, testing::ElementsAre(std::pair(session, SlotId(1))));
}

// draft-talpey-nfsv4-rdma-sess-01 §2.4
class CreditRecallTest : public BoundSessionTest {
 protected:
  CreditRecallTest() : BoundSessionTest({.max_slots = 2, .max_kept_octets = 0, .bound_sessions = true}) {}
};

TEST_F(CreditRecallTest, RecallsCreditsIfMemoryIsShort) {
  const uint64_t session = Create(first, "owner");
  EXPECT_EQ(Bind(second, BindArguments(session, BACK)).status(), NFS4_OK);
  const uint32_t channel = BindOperations(first, session);
  EXPECT_EQ(Request(first, Control(channel, 3), PutRoot()).status, NFS4_OK);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  ASSERT_THAT(server.callbacks.credits, testing::SizeIs(1));
  EXPECT_EQ(server.callbacks.credits[0].session, session);
  EXPECT_EQ(server.callbacks.credits[0].target, 1u);
}

TEST_F(CreditRecallTest, ClosesTheConnectionsOfAClientThatDoesNotFollow) {
  const uint64_t session = Create(first, "owner");
  EXPECT_EQ(Bind(second, BindArguments(session, BACK)).status(), NFS4_OK);
  const uint32_t channel = BindOperations(first, session);
  EXPECT_EQ(Request(first, Control(channel, 3), PutRoot()).status, NFS4_OK);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  const CreditRecall recall = server.callbacks.credits.at(0);
  server.state.Run(
      [&](StateTables& state) { EXPECT_TRUE(state.bound_sessions.BeginRecall(recall, server.clock.now)); });
  server.clock.now += server.settings.lease / 4;
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_FALSE(first.way->connected());
  EXPECT_FALSE(second.way->connected());
  TestConnection third(server.buffers);
  const auto bound = Bind(third, BindArguments(session));
  ASSERT_EQ(bound.status(), NFS4_OK);
  EXPECT_EQ(bound.resok4().maxrequests, 1u);
  EXPECT_EQ(third.limits->credits, 1u);
  EXPECT_EQ(Request(third, Control(bound.resok4().channelid, 3), PutRoot()).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
