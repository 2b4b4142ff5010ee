// Tests EXCHANGE_ID by the cases of RFC 8881 §18.35.4, DESTROY_CLIENTID and RECLAIM_COMPLETE.
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using ExchangeIdTest = ClientsTest;
using DestroyClientIdTest = ClientsTest;
using ReclaimCompleteTest = ClientsTest;

TEST_F(ExchangeIdTest, Case1NewOwnerGetsAnUnconfirmedClient) {
  const auto made = Exchange("owner");
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->confirmed);
  EXPECT_EQ(clients_.Find(made->id), nullptr);
  const auto other = Exchange("another owner");
  ASSERT_TRUE(other);
  EXPECT_NE(other->id, made->id);
}

TEST_F(ExchangeIdTest, Case2RepeatedRequestReturnsTheSameClient) {
  const Opened client = Open("owner");
  const auto again = Exchange("owner");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, client.client);
  EXPECT_TRUE(again->confirmed);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4_OK);
}

TEST_F(ExchangeIdTest, Case3RefusesAnotherPrincipalWhileTheOwnerIsInUse) {
  const Opened client = Open("owner", 1, /*uid=*/1);
  EXPECT_EQ(Exchange("owner", 1, 2).error(), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_EQ(Exchange("owner", 2, 2).error(), nfs4::NFS4ERR_CLID_INUSE);

  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  GiveOpen(client.client);
  EXPECT_EQ(Exchange("owner", 1, 2).error(), nfs4::NFS4ERR_CLID_INUSE);
}

TEST_F(ExchangeIdTest, Case3AnotherPrincipalTakesAnOwnerWithoutState) {
  const Opened client = Open("owner", 1, /*uid=*/1);
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  const auto taken = Exchange("owner", 1, 2);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->replaces);
  EXPECT_FALSE(clients_.Has(client.client));
  EXPECT_NE(taken->id, client.client);
  EXPECT_FALSE(taken->confirmed);
  EXPECT_EQ(Create(client.client, 2, 1).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(ExchangeIdTest, Case3AnotherPrincipalTakesAnOwnerWithExpiredLease) {
  const Opened client = Open("owner", 1, /*uid=*/1);
  GiveOpen(client.client);
  now_ += kLease + std::chrono::seconds(1);
  const auto taken = Exchange("owner", 1, 2);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->replaces);
  EXPECT_FALSE(clients_.Has(client.client));
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4ERR_BADSESSION);
}

TEST_F(ExchangeIdTest, Case4ReplacesAnUnconfirmedClient) {
  for (const uint64_t verifier : {1, 2}) {
    for (const uint32_t uid : {0u, 5u}) {
      const std::string owner = "owner " + std::to_string(verifier) + std::to_string(uid);
      const auto first = Exchange(owner, 1, 0);
      const auto second = Exchange(owner, verifier, uid);
      ASSERT_TRUE(first && second);
      EXPECT_NE(first->id, second->id);
      EXPECT_EQ(Create(first->id, 1).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
      EXPECT_EQ(Create(second->id, 1, uid).reply.csr_status(), nfs4::NFS4_OK);
    }
  }
}

TEST_F(ExchangeIdTest, Case5RestartedClientKeepsItsOldStateUntilItConfirms) {
  const Opened before = Open("owner", 1);
  const auto restarted = Exchange("owner", 2);
  ASSERT_TRUE(restarted);
  EXPECT_NE(restarted->id, before.client);
  EXPECT_FALSE(restarted->confirmed);
  EXPECT_FALSE(restarted->replaces);
  EXPECT_EQ(Sequence(before.session), nfs4::NFS4_OK);

  const auto created = Create(restarted->id, restarted->sequence.value());
  EXPECT_EQ(created.reply.csr_status(), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.Has(before.client));
  EXPECT_EQ(Sequence(before.session, 0, 2), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(clients_.client_count(), 1u);
}

TEST_F(ExchangeIdTest, Case5OldIncarnationIsValidUntilTheNewOneConfirms) {
  const Opened before = Open("owner", 1);
  const auto restarted = Exchange("owner", 2);
  EXPECT_EQ(Exchange("owner", 1)->id, before.client);
  const auto again = Exchange("owner", 2);
  ASSERT_TRUE(again);
  EXPECT_NE(again->id, restarted->id);
}

TEST_F(ExchangeIdTest, Case6UpdatesAConfirmedClient) {
  const Opened client = Open("owner", 1, 3);
  const auto updated = Exchange("owner", 1, 3, /*update=*/true);
  ASSERT_TRUE(updated);
  EXPECT_EQ(updated->id, client.client);
  EXPECT_TRUE(updated->confirmed);
}

TEST_F(ExchangeIdTest, Case7RefusesToUpdateAnUnconfirmedClient) {
  EXPECT_EQ(Exchange("owner", 1, 0, true).error(), nfs4::NFS4ERR_NOENT);
  const auto made = Exchange("owner");
  for (const uint64_t verifier : {1, 2}) {
    for (const uint32_t uid : {0u, 5u}) EXPECT_EQ(Exchange("owner", verifier, uid, true).error(), nfs4::NFS4ERR_NOENT);
  }
  EXPECT_EQ(Create(made->id, 1).reply.csr_status(), nfs4::NFS4_OK);
}

TEST_F(ExchangeIdTest, Case8RefusesAnUpdateByAnotherIncarnation) {
  const Opened client = Open("owner", 1, 3);
  EXPECT_EQ(Exchange("owner", 2, 3, true).error(), nfs4::NFS4ERR_NOT_SAME);
  EXPECT_EQ(Exchange("owner", 2, 4, true).error(), nfs4::NFS4ERR_NOT_SAME);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4_OK);
}

TEST_F(ExchangeIdTest, Case9RefusesAnUpdateByAnotherPrincipal) {
  const Opened client = Open("owner", 1, 3);
  EXPECT_EQ(Exchange("owner", 1, 4, true).error(), nfs4::NFS4ERR_PERM);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4_OK);
}

TEST_F(ExchangeIdTest, DropsTheOldestUnconfirmedClientWhenFull) {
  settings_.max_unconfirmed_clients = 3;
  const auto first = Exchange("first");
  for (const char* owner : {"second", "third", "fourth"}) ASSERT_TRUE(Exchange(owner));
  EXPECT_EQ(clients_.client_count(), 3u);
  EXPECT_EQ(Create(first->id, 1).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(ExchangeIdTest, UnconfirmedClientsDoNotDisplaceConfirmedOnes) {
  settings_.max_unconfirmed_clients = 2;
  const Opened client = Open("client");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Exchange("flood " + std::to_string(i)));
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.client_count(), 3u);
}

TEST_F(ExchangeIdTest, DelaysNewClientsBeyondTheLimit) {
  settings_.max_clients = 2;
  Open("first");
  Open("second");
  EXPECT_EQ(Exchange("third").error(), nfs4::NFS4ERR_DELAY);
  EXPECT_TRUE(Exchange("second", /*verifier=*/2));
}

TEST_F(ExchangeIdTest, MinorVersionZeroHasSeparateOwners) {
  const ClientId zero = OpenMinorZero("owner");
  const Opened one = Open("owner");
  EXPECT_NE(clients_.Find(zero), nullptr);
  EXPECT_NE(clients_.Find(one.client), nullptr);
  EXPECT_EQ(Create(zero, 1).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(DestroyClientIdTest, RemovesAnIdleClient) {
  const auto unconfirmed = Exchange("unconfirmed");
  EXPECT_TRUE(tables_.Destroy(unconfirmed->id, {}, now_));
  EXPECT_EQ(tables_.Destroy(unconfirmed->id, {}, now_).error(), nfs4::NFS4ERR_STALE_CLIENTID);

  const Opened client = Open("owner");
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_TRUE(tables_.Destroy(client.client, {}, now_));
  EXPECT_EQ(clients_.client_count(), 0u);
}

TEST_F(DestroyClientIdTest, ClientWithASessionOrStateIsBusy) {
  const Opened client = Open("owner");
  EXPECT_EQ(tables_.Destroy(client.client, {}, now_).error(), nfs4::NFS4ERR_CLIENTID_BUSY);
  GiveOpen(client.client);
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(tables_.Destroy(client.client, {}, now_).error(), nfs4::NFS4ERR_CLIENTID_BUSY);
  TakeOpens(client.client);
  EXPECT_TRUE(tables_.Destroy(client.client, {}, now_));
}

TEST_F(DestroyClientIdTest, RemovesABusyClientAfterItsLease) {
  const Opened client = Open("owner");
  now_ += kLease + std::chrono::seconds(1);
  EXPECT_TRUE(tables_.Destroy(client.client, {}, now_));
  EXPECT_EQ(sessions_.session_count(), 0u);
}

TEST_F(DestroyClientIdTest, UnknownClientIsStale) {
  EXPECT_EQ(tables_.Destroy(ClientId(0), {}, now_).error(), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(tables_.Destroy(OpenMinorZero("zero"), {}, now_).error(), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(DestroyClientIdTest, ReturnsTheRecordOfTheRecoveryStore) {
  const Opened client = Open("owner");
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  clients_.SetRecorded(client.client);
  EXPECT_EQ(tables_.Destroy(client.client, {}, now_).value(), OldRecord(OwnerKey(DialectOf(1), "owner")));
}

// RFC 8881 §18.51.3
TEST_F(ReclaimCompleteTest, NewStateRequiresReclaimComplete) {
  const Opened client = Open("owner");
  EXPECT_EQ(clients_.CheckNew(client.client), nfs4::NFS4ERR_GRACE);
  EXPECT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CheckNew(client.client), nfs4::NFS4_OK);
}

TEST_F(ReclaimCompleteTest, SecondReclaimCompleteFails) {
  const Opened client = Open("owner");
  EXPECT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4_OK);
  EXPECT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4ERR_COMPLETE_ALREADY);
}

TEST_F(ReclaimCompleteTest, RemovedClientGetsDeadSession) {
  const Opened client = Open("owner", 1);
  Open("owner", 2);
  EXPECT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4ERR_DEADSESSION);
}

TEST_F(ReclaimCompleteTest, NewIncarnationMustSendReclaimCompleteAgain) {
  ASSERT_EQ(clients_.CompleteReclaim(Open("owner", 1).client), nfs4::NFS4_OK);
  const Opened restarted = Open("owner", 2);
  EXPECT_EQ(clients_.CheckNew(restarted.client), nfs4::NFS4ERR_GRACE);
}

TEST_F(ReclaimCompleteTest, ClientNeedsARecordAfterReclaimComplete) {
  const Opened client = Open("owner");
  EXPECT_FALSE(clients_.NeedsRecord(client.client));
  ASSERT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4_OK);
  EXPECT_TRUE(clients_.NeedsRecord(client.client));
  clients_.SetRecorded(client.client);
  EXPECT_FALSE(clients_.NeedsRecord(client.client));
}

TEST_F(ReclaimCompleteTest, NewIncarnationKeepsTheRecordOfItsOwner) {
  const Opened client = Open("owner", 1);
  clients_.SetRecorded(client.client);
  const Opened restarted = Open("owner", 2);
  ASSERT_EQ(clients_.CompleteReclaim(restarted.client), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.NeedsRecord(restarted.client));
}

// The record in the store has the old principal, and only that principal could reclaim.
TEST_F(ReclaimCompleteTest, AnotherPrincipalNeedsANewRecord) {
  const Opened client = Open("owner", 1, 5);
  clients_.SetRecorded(client.client);
  now_ += kLease + std::chrono::seconds(1);
  const Opened another = Open("owner", 2, 6);
  ASSERT_EQ(clients_.CompleteReclaim(another.client), nfs4::NFS4_OK);
  EXPECT_TRUE(clients_.NeedsRecord(another.client));
}

}  // namespace
}  // namespace penstock::nfs::v4
