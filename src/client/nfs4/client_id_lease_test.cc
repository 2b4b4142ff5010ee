#include "client/nfs4/client_id_lease.h"

#include <gtest/gtest.h>

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;
using ClientIdStep = ClientIdLease::Step;

class ClientIdLeaseTest : public testing::Test {
 protected:
  void Set(uint64_t client) { lease.HandleSetClientId({client, {std::byte(client)}}); }
  void Establish(uint64_t client = 7) {
    Set(client);
    lease.HandleConfirm(nfsstat4::NFS4_OK, now);
    lease.HandleReclaimed();
    ASSERT_TRUE(lease.ready());
  }

  ClientIdLease lease;
  const TimePoint now{std::chrono::seconds(1000)};
};

TEST_F(ClientIdLeaseTest, EstablishingTakesThreeSteps) {
  EXPECT_EQ(lease.next(), ClientIdStep::kSetClientId);
  Set(7);
  EXPECT_EQ(lease.next(), ClientIdStep::kConfirm);
  EXPECT_EQ(lease.client(), 7u);
  EXPECT_EQ(lease.confirmation()[0], std::byte(7));
  lease.HandleConfirm(nfsstat4::NFS4_OK, now);
  EXPECT_EQ(lease.next(), ClientIdStep::kReclaim);
  lease.HandleReclaimed();
  EXPECT_TRUE(lease.ready());
}

TEST_F(ClientIdLeaseTest, RepeatsTheConfirmationAfterDelay) {
  Set(7);
  lease.HandleConfirm(nfsstat4::NFS4ERR_DELAY, now);
  EXPECT_EQ(lease.next(), ClientIdStep::kConfirm);
}

// RFC 7530 §16.34.5
TEST_F(ClientIdLeaseTest, StartsAgainIfTheServerForgetsAnUnconfirmedClientId) {
  Set(7);
  lease.HandleConfirm(nfsstat4::NFS4ERR_STALE_CLIENTID, now);
  EXPECT_EQ(lease.next(), ClientIdStep::kSetClientId);
}

// RFC 7530 §9.6.2
TEST_F(ClientIdLeaseTest, LosesAllStateIfTheServerRestarts) {
  Establish(7);
  const uint64_t epoch = lease.epoch();
  lease.HandleStatus(nfsstat4::NFS4ERR_STALE_CLIENTID, epoch);
  EXPECT_EQ(lease.next(), ClientIdStep::kSetClientId);
  Set(9);
  lease.HandleConfirm(nfsstat4::NFS4_OK, now);
  EXPECT_EQ(lease.next(), ClientIdStep::kReclaim);
  EXPECT_EQ(lease.epoch(), epoch + 1);
}

TEST_F(ClientIdLeaseTest, ALateReplyDoesNotDisturbTheConfirmation) {
  Establish(7);
  const uint64_t before = lease.epoch();
  lease.HandleStatus(nfsstat4::NFS4ERR_STALE_CLIENTID, before);
  Set(9);
  lease.HandleStatus(nfsstat4::NFS4ERR_STALE_CLIENTID, before);
  lease.HandleStatus(nfsstat4::NFS4ERR_EXPIRED, before);
  EXPECT_EQ(lease.next(), ClientIdStep::kConfirm);
  lease.HandleConfirm(nfsstat4::NFS4_OK, now);
  EXPECT_EQ(lease.next(), ClientIdStep::kReclaim);
}

TEST_F(ClientIdLeaseTest, ChecksTheClientIdAfterALostStateid) {
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_STALE_STATEID, nfsstat4::NFS4ERR_EXPIRED}) {
    lease = ClientIdLease();
    Establish();
    const uint64_t epoch = lease.epoch();
    lease.HandleStatus(status, epoch);
    EXPECT_EQ(lease.next(), ClientIdStep::kRenew);
    lease.HandleRenew(nfsstat4::NFS4_OK, epoch, now);
    EXPECT_TRUE(lease.ready()) << "other state is unchanged";
    EXPECT_EQ(lease.epoch(), epoch);

    lease.HandleStatus(status, epoch);
    lease.HandleRenew(nfsstat4::NFS4ERR_EXPIRED, epoch, now);
    EXPECT_EQ(lease.next(), ClientIdStep::kSetClientId);
    Establish(7);
    EXPECT_EQ(lease.epoch(), epoch + 1) << "the client id is the same, but its state is lost";
  }
}

TEST_F(ClientIdLeaseTest, IgnoresOtherErrors) {
  Establish();
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_NOENT, nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_BAD_STATEID}) {
    lease.HandleStatus(status, lease.epoch());
    EXPECT_TRUE(lease.ready());
  }
}

TEST_F(ClientIdLeaseTest, IgnoresLateRepliesForAnEarlierClientId) {
  Establish(7);
  const uint64_t before = lease.epoch();
  lease.HandleStatus(nfsstat4::NFS4ERR_STALE_CLIENTID, before);
  Establish(9);
  lease.HandleStatus(nfsstat4::NFS4ERR_STALE_CLIENTID, before);
  lease.HandleRenew(nfsstat4::NFS4ERR_STALE_CLIENTID, before, now);
  EXPECT_TRUE(lease.ready());
}

// RFC 7530 §16.28.5: only delegations are in danger, and the client holds none.
TEST_F(ClientIdLeaseTest, RenewalSucceedsWhileTheCallbackPathIsDown) {
  Establish();
  lease.set_lease_time(std::chrono::seconds(60));
  EXPECT_EQ(lease.renewed_at(), now);
  const TimePoint later = now + std::chrono::seconds(20);
  lease.HandleRenew(nfsstat4::NFS4ERR_CB_PATH_DOWN, lease.epoch(), later);
  EXPECT_EQ(lease.renewed_at(), later);
  lease.HandleRenew(nfsstat4::NFS4_OK, lease.epoch(), now);  // a late reply
  EXPECT_EQ(lease.renewed_at(), later);
}

}  // namespace
}  // namespace penstock::client::v4
