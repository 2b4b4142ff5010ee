#include "nfs/v4/state/clients/grace.h"

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using GraceOfClientsTest = ClientsTest;

const TimePoint kEnd{std::chrono::hours(2)};
const TimePoint kBefore = kEnd - std::chrono::seconds(1);

RecoveryRecord Record(uint32_t minor_version, std::string_view owner, uint32_t uid = 0) {
  return {OwnerKey(DialectOf(minor_version), owner), User(uid)};
}

TEST(Grace, StaysOffWithoutRecordedClients) {
  EXPECT_FALSE(Grace().on());
  EXPECT_FALSE(Grace({}, kEnd).on());
  EXPECT_FALSE(Grace({}, kEnd).IsDue(kEnd));
}

TEST(Grace, EndIsDueAtTheEndTime) {
  Grace grace({Record(1, "owner")}, kEnd);
  EXPECT_TRUE(grace.on());
  EXPECT_FALSE(grace.IsDue(kBefore));
  EXPECT_TRUE(grace.IsDue(kEnd));
  EXPECT_TRUE(grace.on());
  grace.End();
  EXPECT_FALSE(grace.on());
  EXPECT_FALSE(grace.IsDue(kEnd));
}

TEST(Grace, EndIsDueWhenAllClientsHaveCompletedReclaim) {
  Grace grace({Record(1, "a"), Record(1, "b")}, kEnd);
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(0));
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(0));
  grace.Complete(OwnerKey(DialectOf(1), "somebody else"), User(0));
  EXPECT_FALSE(grace.IsDue(kBefore));
  grace.Complete(OwnerKey(DialectOf(1), "b"), User(0));
  EXPECT_TRUE(grace.IsDue(kBefore));
}

TEST(Grace, APeriodThatAnOperatorBeginsLastsUntilItsEnd) {
  Grace grace;
  grace.Begin(kEnd);
  EXPECT_TRUE(grace.on());
  EXPECT_FALSE(grace.awaits_clients());
  EXPECT_FALSE(grace.IsDue(kBefore));
  EXPECT_TRUE(grace.IsDue(kEnd));
  grace.End();
  EXPECT_FALSE(grace.on());
}

TEST(Grace, AnOperatorMakesNoPeriodShorterByBeginningOne) {
  Grace grace({Record(1, "a")}, kEnd);
  grace.Begin(kBefore);
  EXPECT_FALSE(grace.IsDue(kBefore));
  EXPECT_TRUE(grace.MayReclaim(OwnerKey(DialectOf(1), "a"), User(0)));
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(0));
  EXPECT_FALSE(grace.IsDue(kBefore)) << "the operator's period does not depend on the clients";
}

TEST(Grace, AnOperatorMayEndAPeriodEarly) {
  Grace grace({Record(1, "a")}, kEnd);
  grace.Hurry();
  EXPECT_TRUE(grace.IsDue(kBefore));
}

TEST(Grace, NoClientReclaimsOnceThePeriodIsClosedButItLastsUntilItsEnd) {
  const RecoveryRecord client = Record(1, "a");
  Grace grace({client}, kEnd);
  EXPECT_TRUE(grace.is_open());
  grace.Close(kBefore);
  grace.Close(kEnd);
  EXPECT_FALSE(grace.is_open());
  EXPECT_FALSE(grace.awaits_clients());
  EXPECT_FALSE(grace.MayReclaim(client.owner, client.principal));
  EXPECT_TRUE(grace.Knew(client.owner, client.principal)) << "the store still has its record";
  EXPECT_TRUE(grace.on());
  EXPECT_TRUE(grace.IsDue(kEnd));
  EXPECT_TRUE(grace.IsClosedFor(kEnd - kBefore, kEnd));
  EXPECT_FALSE(grace.IsClosedFor(kEnd - kBefore, kBefore));
  grace.End();
  EXPECT_FALSE(grace.on());
  EXPECT_FALSE(grace.IsClosedFor(Duration(), kEnd));
}

TEST(Grace, IgnoresReclaimCompleteOfAnotherPrincipal) {
  Grace grace({Record(1, "a", 5)}, kEnd);
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(6));
  EXPECT_FALSE(grace.IsDue(kBefore));
  EXPECT_TRUE(grace.MayReclaim(OwnerKey(DialectOf(1), "a"), User(5)));
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(5));
  EXPECT_TRUE(grace.IsDue(kBefore));
}

TEST(Grace, WaitsForClientsOfMinorVersionZero) {
  Grace grace({Record(0, "a"), Record(1, "a")}, kEnd);
  grace.Complete(OwnerKey(DialectOf(1), "a"), User(0));
  EXPECT_FALSE(grace.IsDue(kBefore));
  EXPECT_TRUE(grace.IsDue(kEnd));
}

TEST(Grace, LastsAtLeastAsLongAsTheLastLease) {
  const RecoveryStore::Restart restart{
      .instance = 1, .last_lease = std::chrono::seconds(60), .clients = {Record(1, "a")}};
  EXPECT_FALSE(Grace(restart, std::chrono::seconds(10), kBefore).IsDue(kBefore + std::chrono::seconds(59)));
  EXPECT_TRUE(Grace(restart, std::chrono::seconds(10), kBefore).IsDue(kBefore + std::chrono::seconds(60)));
  EXPECT_FALSE(Grace(restart, std::chrono::seconds(90), kBefore).IsDue(kBefore + std::chrono::seconds(60)));
}

TEST(Grace, AClusterHoldsThePeriodBesideItsOwnEnd) {
  Grace grace({Record(1, "owner")}, kEnd);
  grace.Hold();
  EXPECT_TRUE(grace.IsDue(kEnd)) << "the clients of this server have their time";
  grace.End();
  EXPECT_TRUE(grace.on());
  EXPECT_FALSE(grace.MayReclaim(Record(1, "owner").owner, Record(1, "owner").principal));
  EXPECT_FALSE(grace.IsDue(kEnd));
  grace.Release();
  EXPECT_FALSE(grace.on());
}

TEST(Grace, AClusterThatReleasesThePeriodDoesNotEndIt) {
  Grace grace({Record(1, "owner")}, kEnd);
  grace.Hold();
  grace.Release();
  EXPECT_TRUE(grace.on());
  EXPECT_TRUE(grace.MayReclaim(Record(1, "owner").owner, Record(1, "owner").principal));
}

TEST(Grace, OnlyRecordedClientsMayReclaim) {
  Grace grace({Record(1, "owner", 5)}, kEnd);
  EXPECT_TRUE(grace.MayReclaim(OwnerKey(DialectOf(1), "owner"), User(5)));
  EXPECT_FALSE(grace.MayReclaim(OwnerKey(DialectOf(1), "owner"), User(6)));
  EXPECT_FALSE(grace.MayReclaim(OwnerKey(DialectOf(0), "owner"), User(5)));
  EXPECT_FALSE(grace.MayReclaim(OwnerKey(DialectOf(1), "other"), User(5)));
  grace.End();
  EXPECT_FALSE(grace.MayReclaim(OwnerKey(DialectOf(1), "owner"), User(5)));
}

TEST_F(GraceOfClientsTest, NoClientGetsNewStateDuringGrace) {
  clients_.grace() = Grace({Record(1, "owner")}, kEnd);
  const Opened client = Open("new");
  ASSERT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CheckNew(client.client), nfs4::NFS4ERR_GRACE);
  EXPECT_EQ(clients_.CheckNew(OpenMinorZero("zero")), nfs4::NFS4ERR_GRACE);
  clients_.grace().End();
  EXPECT_EQ(clients_.CheckNew(client.client), nfs4::NFS4_OK);
}

TEST_F(GraceOfClientsTest, OnlyRecordedClientsMayReclaim) {
  clients_.grace() = Grace({Record(1, "owner"), Record(0, "zero")}, kEnd);
  const ClientId client = Open("owner").client, zero = OpenMinorZero("zero");
  EXPECT_EQ(clients_.CheckReclaim(client), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CheckReclaim(zero), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CheckReclaim(Open("new").client), nfs4::NFS4ERR_NO_GRACE);
  clients_.grace().End();
  EXPECT_EQ(clients_.CheckReclaim(client), nfs4::NFS4ERR_NO_GRACE);
  EXPECT_EQ(clients_.CheckReclaim(zero), nfs4::NFS4ERR_NO_GRACE);
}

TEST_F(GraceOfClientsTest, ReclaimCompleteEndsTheRightToReclaim) {
  clients_.grace() = Grace({Record(1, "owner"), Record(1, "other")}, kEnd);
  const ClientId client = Open("owner").client;
  EXPECT_EQ(clients_.CompleteReclaim(client), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CheckReclaim(client), nfs4::NFS4ERR_NO_GRACE);
}

// RFC 8881 §18.51.3: after RECLAIM_COMPLETE, the next incarnation of the client may not reclaim either.
TEST_F(GraceOfClientsTest, ReclaimCompleteAlsoBindsTheNextIncarnation) {
  clients_.grace() = Grace({Record(1, "owner"), Record(1, "other")}, kEnd);
  ASSERT_EQ(clients_.CompleteReclaim(Open("owner").client), nfs4::NFS4_OK);
  const ClientId again = Open("owner", 2).client;
  EXPECT_EQ(clients_.CheckReclaim(again), nfs4::NFS4ERR_NO_GRACE);
  EXPECT_EQ(clients_.CompleteReclaim(again), nfs4::NFS4_OK);
}

TEST_F(GraceOfClientsTest, ReclaimCompleteOfAnotherPrincipalDoesNotEndTheClientsReclaim) {
  clients_.grace() = Grace({Record(1, "owner", 5)}, kEnd);
  const Opened impostor = Open("owner", 1, 6);
  EXPECT_EQ(clients_.CompleteReclaim(impostor.client), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.grace().IsDue(now_));
  ASSERT_EQ(sessions_.Destroy(impostor.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(tables_.Destroy(impostor.client, {}, now_).value(), OldRecord());
  EXPECT_EQ(clients_.CheckReclaim(Open("owner", 2, 5).client), nfs4::NFS4_OK);
}

TEST_F(GraceOfClientsTest, GraceDoesNotWaitForADestroyedClient) {
  clients_.grace() = Grace({Record(1, "owner")}, kEnd);
  const Opened client = Open("owner");
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(tables_.Destroy(client.client, {}, now_).value(), OldRecord(OwnerKey(DialectOf(1), "owner")));
  EXPECT_TRUE(clients_.grace().IsDue(now_));
}

TEST_F(GraceOfClientsTest, MinorVersionZeroClientIsRecordedAgainWhenItReclaims) {
  clients_.grace() = Grace({Record(0, "zero"), Record(1, "one")}, kEnd);
  EXPECT_TRUE(clients_.NeedsRecord(OpenMinorZero("zero")));
  // In minor version 1, the old record stays valid until RECLAIM_COMPLETE.
  EXPECT_FALSE(clients_.NeedsRecord(Open("one").client));
}

}  // namespace
}  // namespace penstock::nfs::v4
