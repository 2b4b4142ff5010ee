#include "client/nfs4/lease.h"

#include <gtest/gtest.h>

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;
using Step = Lease::Step;

nfs4::EXCHANGE_ID4resok Exchanged(uint64_t client, uint32_t sequence) {
  nfs4::EXCHANGE_ID4resok result;
  result.eir_clientid = client;
  result.eir_sequenceid = sequence;
  return result;
}

nfs4::CREATE_SESSION4res Created(uint8_t session) {
  nfs4::CREATE_SESSION4resok result;
  result.csr_sessionid[0] = std::byte{session};
  return {nfsstat4::NFS4_OK, result};
}

class LeaseTest : public testing::Test {
 protected:
  void Establish() {
    lease.HandleExchangeId(Exchanged(7, 3));
    EXPECT_TRUE(lease.HandleCreateSession(Created(1)));
    lease.HandleReclaimed();
    lease.HandleReclaimComplete();
    ASSERT_TRUE(lease.ready());
  }

  Lease lease;
  const TimePoint now{std::chrono::seconds(1000)};
};

TEST_F(LeaseTest, EstablishingTakesFourSteps) {
  EXPECT_EQ(lease.next(), Step::kExchangeId);
  lease.HandleExchangeId(Exchanged(7, 3));
  EXPECT_EQ(lease.next(), Step::kCreateSession);
  EXPECT_EQ(lease.client(), 7u);
  EXPECT_EQ(lease.create_sequence(), 3u);
  EXPECT_TRUE(lease.HandleCreateSession(Created(1)));
  EXPECT_EQ(lease.next(), Step::kReclaim);
  lease.HandleReclaimed();
  EXPECT_EQ(lease.next(), Step::kReclaimComplete);
  lease.HandleReclaimComplete();
  EXPECT_TRUE(lease.ready());
}

TEST_F(LeaseTest, CreatesOnlyTheLostSessionAgain) {
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_BADSESSION, nfsstat4::NFS4ERR_DEADSESSION}) {
    lease = Lease();
    Establish();
    const uint64_t epoch = lease.epoch();
    lease.HandleStatus(status, lease.generation());
    EXPECT_EQ(lease.next(), Step::kCreateSession);
    EXPECT_EQ(lease.create_sequence(), 4u);
    EXPECT_TRUE(lease.HandleCreateSession(Created(2)));
    EXPECT_TRUE(lease.ready()) << "the client id still has its state";
    EXPECT_EQ(lease.epoch(), epoch);
  }
}

TEST_F(LeaseTest, DestroysASessionWhoseSlotsDisagreeWithTheServer) {
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_SEQ_MISORDERED, nfsstat4::NFS4ERR_BADSLOT}) {
    lease = Lease();
    Establish();
    lease.HandleStatus(status, lease.generation());
    EXPECT_EQ(lease.next(), Step::kDestroySession);
    lease.HandleDestroyed();
    EXPECT_TRUE(lease.HandleCreateSession(Created(2)));
    EXPECT_TRUE(lease.ready());
    lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, lease.generation());
    lease.HandleStatus(status, lease.generation());
    EXPECT_EQ(lease.next(), Step::kCreateSession) << "the session is lost already";
  }
}

TEST_F(LeaseTest, IgnoresOtherErrors) {
  Establish();
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_NOENT, nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_EXPIRED}) {
    lease.HandleStatus(status, lease.generation());
    EXPECT_TRUE(lease.ready());
  }
}

TEST_F(LeaseTest, IgnoresLateRepliesForAnEarlierSession) {
  Establish();
  const uint64_t before = lease.generation();
  lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, before);
  EXPECT_TRUE(lease.HandleCreateSession(Created(2)));
  lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, before);
  lease.HandleSequence(nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED, before, now);
  EXPECT_TRUE(lease.ready());
}

TEST_F(LeaseTest, ALateReplyDoesNotDisturbTheNextSession) {
  Establish();
  const uint64_t before = lease.generation();
  lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, before);
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_STALE_CLIENTID, nfsstat4::NFS4ERR_BADSLOT}) {
    lease.HandleStatus(status, before);
    EXPECT_EQ(lease.next(), Step::kCreateSession);
  }
  EXPECT_TRUE(lease.HandleCreateSession(Created(2)));
  EXPECT_TRUE(lease.ready());
}

// RFC 8881 §8.4.2.1: the server has restarted and does not know the client id.
TEST_F(LeaseTest, LosesAllStateWithTheClientId) {
  Establish();
  const uint64_t epoch = lease.epoch();
  lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, lease.generation());
  EXPECT_FALSE(lease.HandleCreateSession(nfs4::CREATE_SESSION4res(nfsstat4::NFS4ERR_STALE_CLIENTID)));
  EXPECT_EQ(lease.next(), Step::kExchangeId);
  lease.HandleExchangeId(Exchanged(9, 1));
  EXPECT_TRUE(lease.HandleCreateSession(Created(3)));
  EXPECT_EQ(lease.next(), Step::kReclaim);
  EXPECT_GT(lease.epoch(), epoch);
}

TEST_F(LeaseTest, LosesAllStateIfTheServerSaysThatTheLeaseHasExpired) {
  Establish();
  const uint64_t epoch = lease.epoch();
  lease.HandleExpired(lease.generation() - 1);
  EXPECT_TRUE(lease.ready());
  lease.HandleExpired(lease.generation());
  EXPECT_EQ(lease.next(), Step::kExchangeId);
  lease.HandleExchangeId(Exchanged(7, 4));
  EXPECT_TRUE(lease.HandleCreateSession(Created(3)));
  EXPECT_EQ(lease.next(), Step::kReclaim);
  EXPECT_GT(lease.epoch(), epoch);
}

TEST_F(LeaseTest, RepeatsCreateSessionAfterDelay) {
  lease.HandleExchangeId(Exchanged(7, 3));
  EXPECT_FALSE(lease.HandleCreateSession(nfs4::CREATE_SESSION4res(nfsstat4::NFS4ERR_DELAY)));
  EXPECT_EQ(lease.next(), Step::kCreateSession);
  EXPECT_EQ(lease.create_sequence(), 3u);
}

TEST_F(LeaseTest, ReclaimsLostStateInTheSameSession) {
  for (const uint32_t flag : {nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED, nfs4::SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED}) {
    lease = Lease();
    Establish();
    const uint64_t epoch = lease.epoch();
    lease.HandleSequence(flag, lease.generation(), now);
    EXPECT_EQ(lease.next(), Step::kReclaim);
    EXPECT_EQ(lease.epoch(), epoch + 1);
    // The server repeats the flag until RECLAIM_COMPLETE.
    lease.HandleSequence(flag, lease.generation(), now);
    EXPECT_EQ(lease.epoch(), epoch + 1);
    lease.HandleReclaimed();
    lease.HandleReclaimComplete();
    EXPECT_TRUE(lease.ready());
  }
}

TEST_F(LeaseTest, KnowsWhetherTheBackChannelIsDown) {
  Establish();
  EXPECT_FALSE(lease.back_channel_down());
  lease.HandleSequence(nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION, lease.generation(), now);
  EXPECT_TRUE(lease.back_channel_down());
  EXPECT_TRUE(lease.ready());
  lease.HandleBound();
  EXPECT_FALSE(lease.back_channel_down());
}

// RFC 8881 §18.46.3: the state of the client id outlives the session.
TEST_F(LeaseTest, DestroysTheSessionAfterABackChannelFault) {
  Establish();
  const uint64_t epoch = lease.epoch();
  lease.HandleSequence(nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT, lease.generation(), now);
  EXPECT_EQ(lease.next(), Step::kDestroySession);
  lease.HandleDestroyed();
  EXPECT_EQ(lease.next(), Step::kCreateSession);
  EXPECT_TRUE(lease.HandleCreateSession(Created(2)));
  EXPECT_TRUE(lease.ready());
  EXPECT_EQ(lease.epoch(), epoch);
  // The session is lost before the client can destroy it.
  lease.HandleSequence(nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT, lease.generation(), now);
  lease.HandleStatus(nfsstat4::NFS4ERR_BADSESSION, lease.generation());
  EXPECT_EQ(lease.next(), Step::kCreateSession);
}

TEST_F(LeaseTest, RenewalCountsFromTheTimeThatSequenceWasSent) {
  Establish();
  lease.set_lease_time(std::chrono::seconds(60));
  lease.HandleSequence(0, lease.generation(), now);
  EXPECT_EQ(lease.renewed_at(), now);
  lease.HandleSequence(0, lease.generation(), now - std::chrono::seconds(5));  // a late reply
  EXPECT_EQ(lease.renewed_at(), now);
}

}  // namespace
}  // namespace penstock::client::v4
