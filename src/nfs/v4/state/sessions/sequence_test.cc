// Tests SEQUENCE (RFC 8881 §18.46) and its effects on session and client. reply_slots_test.cc tests the slots alone.
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

void Store(std::byte* at, auto value) { StoreBig(at, static_cast<uint32_t>(value)); }

using SequenceTest = ClientsTest;
using StatusFlagsTest = ClientsTest;
using RequestDigestTest = ClientsTest;

TEST_F(SequenceTest, ResultRepeatsTheArgumentsAndTellsTheLimits) {
  const Opened client = Open("owner", 1, 0, /*slots=*/8);
  const auto started = Start(client.session, 2, 1, {.size = 200, .operations = 2}, true, /*highest=*/3);
  ASSERT_TRUE(started);
  EXPECT_EQ(started->outcome, Sessions::Outcome::kRun);
  EXPECT_EQ(started->client, client.client);
  EXPECT_EQ(started->sequence.sr_sessionid, client.session);
  EXPECT_EQ(started->sequence.sr_slotid, 2u);
  EXPECT_EQ(started->sequence.sr_sequenceid, 1u);
  EXPECT_EQ(started->sequence.sr_highest_slotid, 7u);
  EXPECT_EQ(started->sequence.sr_target_highest_slotid, 7u);
  EXPECT_EQ(started->max_reply, 8192u);
  EXPECT_EQ(started->max_kept_reply, 8192u);
}

TEST_F(SequenceTest, UnknownSessionsAreRefused) {
  const Opened client = Open("owner");
  SessionId other = client.session;
  other[15] ^= std::byte{1};
  EXPECT_EQ(Sequence(other), nfs4::NFS4ERR_BADSESSION);
  other = client.session;
  other[4] = std::byte{0xff};
  EXPECT_EQ(Sequence(other), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(Sequence(SessionId()), nfs4::NFS4ERR_BADSESSION);
}

TEST_F(SequenceTest, RetryOverAnotherConnectionGetsTheKeptReply) {
  BufferPool buffers;
  const Opened client = Open("owner");
  ASSERT_TRUE(Start(client.session, 0, 1));
  BufferRef buffer = buffers.Allocate(4);
  CopyBytes(buffer->bytes(), AsBytes("done"));
  const ConstBytes octets(buffer->data(), 4);
  Finish(client.session, 0, 1, xdr::Message::Whole(Slice(std::move(buffer), octets)));
  connection_.number = 99;
  const auto again = Start(client.session, 0, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->outcome, Sessions::Outcome::kReplay);
  EXPECT_EQ(AsText(again->reply.stream.bytes()), "done");
  EXPECT_EQ(again->sequence.sr_sequenceid, 1u);
}

TEST_F(SequenceTest, RetryWithoutAKeptReplyIsUncached) {
  const Opened client = Open("owner");
  ASSERT_TRUE(Start(client.session, 0, 1));
  Finish(client.session, 0, 1);
  EXPECT_EQ(Start(client.session, 0, 1)->outcome, Sessions::Outcome::kUncached);
}

TEST_F(SequenceTest, RefusesRequestsTooLargeForTheSession) {
  const Opened client = Open("owner");
  EXPECT_EQ(Start(client.session, 0, 1, {.size = 8193, .operations = 2}).error(), nfs4::NFS4ERR_REQ_TOO_BIG);
  EXPECT_EQ(Start(client.session, 0, 1, {.size = 8192, .operations = 129}).error(), nfs4::NFS4ERR_TOO_MANY_OPS);
  EXPECT_TRUE(Start(client.session, 0, 1, {.size = 8192, .operations = 128}));
}

TEST_F(SequenceTest, SessionWithoutReplyCacheRefusesCacheThis) {
  settings_.max_cached_response = 10;
  const auto made = Exchange("owner");
  auto fore = PlainChannel();
  fore.ca_maxresponsesize_cached = 10;
  const auto created =
      tables_.CreateSession({.client = made->id, .sequence = made->sequence, .fore = fore, .back = PlainChannel()},
                            connection_, User(0), 1, now_);
  const SessionId session = created.reply.csr_resok4().csr_sessionid;
  EXPECT_EQ(Start(session, 0, 1, {.size = 100, .operations = 1}, true).error(), nfs4::NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_TRUE(Start(session, 0, 1, {.size = 100, .operations = 1}, false));
}

TEST_F(SequenceTest, RequestsAndRetriesRenewTheLease) {
  const Opened client = Open("owner");
  for (uint32_t i = 0; i < 4; ++i) {
    now_ += kLease - std::chrono::seconds(1);
    EXPECT_EQ(Sequence(client.session, 0, 1 + i / 2), nfs4::NFS4_OK);
    EXPECT_FALSE(clients_.IsExpired(client.client, now_ + kLease));
  }
}

TEST_F(SequenceTest, FailedSequenceDoesNotRenewTheLease) {
  const Opened client = Open("owner");
  now_ += kLease;
  EXPECT_EQ(Sequence(client.session, 0, 9), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_TRUE(clients_.IsExpired(client.client, now_ + std::chrono::seconds(1)));
}

TEST_F(StatusFlagsTest, ClientWithoutABackchannelGetsNoFlags) {
  EXPECT_EQ(StatusFlags(Open("owner").session, 0, 1), 0u);
}

TEST_F(StatusFlagsTest, TellsThatTheBackchannelIsDown) {
  BufferPool buffers;
  const auto channel = std::make_shared<TestBackChannel>(buffers);
  connection_.back_channel = channel;
  const Opened client = Open("owner");
  EXPECT_EQ(StatusFlags(client.session, 0, 1), 0u);
  channel->Disconnect();
  EXPECT_EQ(StatusFlags(client.session, 0, 2), nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION);

  // The backchannel of another session serves the client, but not this session.
  connection_ = {2, std::make_shared<TestBackChannel>(buffers)};
  ASSERT_EQ(Create(client.client, 2).reply.csr_status(), nfs4::NFS4_OK);
  EXPECT_EQ(StatusFlags(client.session, 0, 3), nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION);
  ASSERT_TRUE(sessions_.Bind(client.session, connection_, nfs4::CDFC4_FORE_OR_BOTH, {}));
  EXPECT_EQ(StatusFlags(client.session, 0, 4), 0u);
}

TEST_F(StatusFlagsTest, TellsThatReclaimIsNeededUntilReclaimComplete) {
  const RecoveryRecord record{OwnerKey(DialectOf(1), "owner"), User(0)};
  clients_.grace() = Grace({record}, now_ + kLease);
  const Opened client = Open("owner"), other = Open("other");
  EXPECT_EQ(StatusFlags(client.session, 0, 1), nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED);
  EXPECT_EQ(StatusFlags(other.session, 0, 1), 0u);
  ASSERT_EQ(clients_.CompleteReclaim(client.client), nfs4::NFS4_OK);
  EXPECT_EQ(StatusFlags(client.session, 0, 2), 0u);
}

// RFC 8881 §2.10.6.1.3.1
TEST_F(RequestDigestTest, DiffersBetweenRequests) {
  rpc::Credential user, other;
  user.uid = 1;
  other.uid = 2;
  std::array<std::byte, 40> rest{};
  Store(&rest[0], nfs4::OP_PUTFH);
  Store(&rest[4], 20);
  const uint64_t digest = RequestDigest(user, 3, 40, rest);
  EXPECT_EQ(RequestDigest(user, 3, 40, rest), digest);
  EXPECT_NE(RequestDigest(other, 3, 40, rest), digest);
  const rpc::GssInitiator alice{.name = "alice", .display = {}}, bob{.name = "bob", .display = {}};
  user.initiator = &alice;
  other = user;
  other.initiator = &bob;
  EXPECT_NE(RequestDigest(user, 3, 40, rest), RequestDigest(other, 3, 40, rest))
      << "two initiators may map to the same local user";
  user.initiator = nullptr;
  EXPECT_NE(RequestDigest(user, 4, 40, rest), digest);
  EXPECT_NE(RequestDigest(user, 3, 44, rest), digest);
  rest[27] = std::byte{1};  // the filehandle's last octet
  EXPECT_NE(RequestDigest(user, 3, 40, rest), digest);
}

TEST_F(RequestDigestTest, IgnoresWhetherAPayloadIsInTheStream) {
  std::array<std::byte, 64> in_stream{};
  Store(&in_stream[0], nfs4::OP_PUTROOTFH);
  Store(&in_stream[4], nfs4::OP_CREATE);
  Store(&in_stream[8], nfs4::NF4LNK);
  Store(&in_stream[12], 24);  // the text of the link, a payload of 24 zeros; the name of the link follows
  Store(&in_stream[40], 8);
  std::array<std::byte, 40> beside{};
  CopyBytes(beside, ConstBytes(in_stream).first(16));
  Store(&beside[16], 8);
  const rpc::Credential user{};
  EXPECT_EQ(RequestDigest(user, 3, 64, in_stream), RequestDigest(user, 3, 64, beside));
}

TEST_F(RequestDigestTest, ReadsOnlyTheOctetsOfTheRequest) {
  std::array<std::byte, 8> rest{};
  Store(&rest[0], nfs4::OP_PUTFH);
  Store(&rest[4], 0xffffffff);
  EXPECT_NE(RequestDigest({}, 2, 8, rest), RequestDigest({}, 1, 0, {}));
  EXPECT_NE(RequestDigest({}, 2, 8, ConstBytes(rest).first(4)), 0u);
}

}  // namespace
}  // namespace penstock::nfs::v4
