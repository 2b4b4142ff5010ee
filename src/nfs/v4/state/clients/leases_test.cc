// Tests the leases of clients (RFC 8881 §8.3, §8.4.3; RFC 7530 §9.5, §9.6.3).
#include <fmt/core.h>

#include <ranges>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::chrono::seconds kMoment{1};

class LeasesTest : public ClientsTest {
 protected:
  std::vector<ClientId> Sweep() { return tables_.Sweep(now_); }
};

TEST_F(LeasesTest, LeaseExpiresWithoutRenewal) {
  const ClientId id = OpenMinorZero("x");
  now_ += kLease;
  EXPECT_FALSE(clients_.IsExpired(id, now_));
  now_ += kMoment;
  EXPECT_TRUE(clients_.IsExpired(id, now_));
}

TEST_F(LeasesTest, RenewalRestoresAnExpiredLease) {
  const ClientId id = OpenMinorZero("x");
  now_ += 10 * kLease;
  clients_.Renew(id, now_);
  EXPECT_FALSE(clients_.IsExpired(id, now_ + kLease));
}

TEST_F(LeasesTest, ClientWithARunningRequestDoesNotExpire) {
  const Opened client = Open("owner");
  ASSERT_TRUE(Start(client.session, 0, 1));
  now_ += 2 * kLease;
  EXPECT_FALSE(clients_.IsExpired(client.client, now_));
  Finish(client.session, 0, 1);
  EXPECT_FALSE(clients_.IsExpired(client.client, now_ + kLease));
  EXPECT_TRUE(clients_.IsExpired(client.client, now_ + kLease + kMoment));
}

// RFC 8881 §2.10.12: a session also lasts if there are too many clients, if the client has no state, and if the client
// has used only another of its sessions.
TEST_F(LeasesTest, SessionsLastForALeaseAfterTheLastRequestOfTheClient) {
  settings_.max_clients = 1;
  const Opened client = Open("owner");
  const SessionId other = Create(client.client, 2).reply.csr_resok4().csr_sessionid;
  for (uint32_t sequence = 1; sequence <= 3; ++sequence) {
    now_ += kLease;
    EXPECT_THAT(Sweep(), IsEmpty());
    EXPECT_FALSE(clients_.Doom(client.client, now_));
    GiveOpen(client.client);
    EXPECT_EQ(tables_.LongestSilent(now_), std::nullopt);
    TakeOpens(client.client);
    ASSERT_EQ(Sequence(client.session, 0, sequence), nfs4::NFS4_OK);
  }
  now_ += kLease;
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_EQ(Sequence(other), nfs4::NFS4_OK);
  now_ += kLease + kMoment;
  EXPECT_THAT(Sweep(), ElementsAre(client.client));
}

TEST_F(LeasesTest, UnknownClientIsExpired) { EXPECT_TRUE(clients_.IsExpired(ClientId(4711), now_)); }

TEST_F(LeasesTest, DoomedClientCannotReturn) {
  const Opened client = Open("owner");
  const ClientId zero = OpenMinorZero("x");
  now_ += kLease + kMoment;
  ASSERT_TRUE(clients_.Doom(client.client, now_));
  ASSERT_TRUE(clients_.Doom(zero, now_));
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(Create(client.client, 2).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(Exchange("owner").error(), nfs4::NFS4ERR_DELAY);
  EXPECT_EQ(Exchange("owner", 2).error(), nfs4::NFS4ERR_DELAY);
  EXPECT_EQ(Set("x").error(), nfs4::NFS4ERR_DELAY);
  clients_.Renew(zero, now_);
  EXPECT_EQ(clients_.Check(zero), nfs4::NFS4ERR_EXPIRED);
  EXPECT_TRUE(clients_.IsExpired(zero, now_));

  tables_.End(client.client, now_);
  tables_.End(zero, now_);
  EXPECT_EQ(clients_.client_count(), 0u);
  EXPECT_EQ(sessions_.session_count(), 0u);
  EXPECT_TRUE(Exchange("owner"));
}

TEST_F(LeasesTest, DoomRefusesAClientWithALease) {
  const Opened client = Open("owner");
  EXPECT_FALSE(clients_.Doom(client.client, now_));
  now_ += kLease + kMoment;
  ASSERT_EQ(Sequence(client.session), nfs4::NFS4_OK);
  EXPECT_FALSE(clients_.Doom(client.client, now_));
  EXPECT_FALSE(clients_.Doom(ClientId(4711), now_));
}

TEST_F(LeasesTest, DoomSucceedsOnceUntilReprieve) {
  const ClientId id = OpenMinorZero("x");
  now_ += kLease + kMoment;
  EXPECT_TRUE(clients_.Doom(id, now_));
  EXPECT_FALSE(clients_.Doom(id, now_));
  clients_.Reprieve(id);
  EXPECT_EQ(clients_.Check(id), nfs4::NFS4_OK);
  EXPECT_TRUE(clients_.Doom(id, now_));
}

TEST_F(LeasesTest, DoomReturnsTheRecordOfTheRecoveryStore) {
  const ClientId without = OpenMinorZero("without"), with = OpenMinorZero("with");
  clients_.SetRecorded(with);
  now_ += kLease + kMoment;
  EXPECT_EQ(clients_.Doom(without, now_).value(), OldRecord());
  EXPECT_EQ(clients_.Doom(with, now_).value(), OldRecord(OwnerKey(DialectOf(0), "with")));
}

// RFC 8881 §18.35.4: "Any unconfirmed record that is not confirmed within a lease period SHOULD be removed."
TEST_F(LeasesTest, SweepRemovesUnconfirmedClientsAfterALease) {
  const auto one = Exchange("owner");
  const auto zero = Set("x");
  now_ += kLease;
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_EQ(clients_.client_count(), 2u);
  now_ += kMoment;
  EXPECT_THAT(Sweep(), IsEmpty());
  EXPECT_EQ(clients_.client_count(), 0u);
  EXPECT_EQ(Create(one->id, 1).reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(Confirm(*zero), nfs4::NFS4ERR_STALE_CLIENTID);
}

TEST_F(LeasesTest, SweepRemovesClientsWithStateOnlyAfterTheCourtesyPeriod) {
  const ClientId idle = OpenMinorZero("idle"), holder = OpenMinorZero("holder"), alive = OpenMinorZero("alive");
  for (const ClientId id : {holder, alive}) GiveOpen(id);
  now_ += kLease + kMoment;
  clients_.Renew(alive, now_);
  EXPECT_THAT(Sweep(), ElementsAre(idle));
  now_ += settings_.courtesy;
  clients_.Renew(alive, now_);
  EXPECT_THAT(Sweep(), UnorderedElementsAre(idle, holder));
}

TEST_F(LeasesTest, TheLongestSilentClientIsFoundWhateverItsShard) {
  std::vector<ClientId> ids;
  for (size_t i = 0; i < 2 * Shard::kCount; ++i) ids.push_back(OpenMinorZero(fmt::format("client {}", i)));
  for (const ClientId id : ids) GiveOpen(id);
  EXPECT_FALSE(tables_.LongestSilent(now_));
  // They are renewed in another order than they were made in: backwards.
  for (const ClientId id : ids | std::views::reverse) {
    now_ += kMoment;
    clients_.Renew(id, now_);
  }
  now_ += kLease + kMoment;
  for (const ClientId id : ids | std::views::reverse) {
    EXPECT_EQ(tables_.LongestSilent(now_), id);
    clients_.Renew(id, now_);
  }
  EXPECT_FALSE(tables_.LongestSilent(now_));
}

TEST_F(LeasesTest, CourtesyEndsWhenThereAreTooManyClients) {
  settings_.max_clients = 4;
  std::vector<ClientId> ids;
  for (const char* name : {"a", "b", "c", "d"}) ids.push_back(OpenMinorZero(name));
  for (const ClientId id : ids) GiveOpen(id);
  now_ += kLease + kMoment;
  clients_.Renew(ids[0], now_);
  EXPECT_THAT(Sweep(), UnorderedElementsAre(ids[1], ids[2], ids[3]));
}

}  // namespace
}  // namespace penstock::nfs::v4
