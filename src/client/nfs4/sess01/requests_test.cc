// Tests of single requests: streamids, credits and the errors of OPERATION_CONTROL.
#include "client/nfs4/sess01/bound_session_test_fixture.h"

namespace penstock::client::v4::sess01 {
namespace {

using testing::HasSubstr;

TEST_F(BoundSessionTest, KeepsToTheRequestsOfTheSessionAndTheCreditsOfItsChannels) {
  options.channels = 3;
  server.latency = 2ms;
  Establish();
  StartRemoves(60);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 60);
  EXPECT_EQ(server.most_streams, 8u);
  for (uint32_t stream : server.streams_seen) EXPECT_LT(stream, 8u);
  for (const auto& [number, most] : server.most_on_channel) {
    EXPECT_LE(most, 4u) << "channel " << number;
    EXPECT_GE(most, 1u) << "channel " << number;
  }
}

TEST_F(BoundSessionTest, RefusesAReplyForAnotherStreamid) {
  Establish();
  server.wrong_streamid = 1;
  EXPECT_THAT(Remove().error().message, HasSubstr("malformed"));
  server.wrong_streamid = 0;
}

TEST_F(BoundSessionTest, AnEmptyRequestRenewsTheLease) {
  Establish();
  bound->set_lease_time(2s);
  const int before = server.controls;
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.controls > before; }));
  EXPECT_TRUE(bound->holds_lease());
}

// ---- errors of OPERATION_CONTROL ----

TEST_F(BoundSessionTest, ReportsARequestWhoseFateIsUnknown) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  EXPECT_THAT(Remove().error().message, HasSubstr("cannot tell whether it has executed it"));
  server.faults = {Fault::kCallLost};
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_STREAM_INUSE};
  EXPECT_THAT(Remove().error().message, HasSubstr("cannot tell whether it has executed the request"));
  EXPECT_EQ(server.removes, 0);
  EXPECT_TRUE(Remove());
}

TEST_F(BoundSessionTest, RepeatsAHarmlessRequestWhoseFateIsUnknown) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(server.lookups, 1);
}

// Opens end with a restart of the server, so only the file that OPEN has made may be there.
TEST_F(BoundSessionTest, RepeatsARequestOfUnknownFateThatConcernsOnlyOpensIfTheServerHasRestarted) {
  Establish();
  const auto restart = [this] {
    ++server.instance;
    server.faults = {Fault::kCallLost};
    server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  };
  restart();
  EXPECT_TRUE(Do(std::tuple(nfs4::CLOSE4args{})));
  EXPECT_EQ(server.closed_files, 1);
  restart();
  nfs4::OPEN4args creating{};
  creating.openhow = nfs4::openflag4(nfs4::opentype4::OPEN4_CREATE, nfs4::createhow4());
  EXPECT_THAT(Do(std::tuple(creating)).error().message, HasSubstr("cannot tell whether it has executed it"));
  // Without a restart, the open may still be there.
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  EXPECT_THAT(Do(std::tuple(nfs4::CLOSE4args{})).error().message, HasSubstr("cannot tell whether it has executed it"));
  EXPECT_EQ(server.closed_files, 1);
}

TEST_F(BoundSessionTest, UsesAnotherStreamidIfAnotherRequestHasIt) {
  Establish();
  server.streams_seen.clear();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_STREAM_INUSE};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.streams_seen, (std::set<uint32_t>{0, 1}));
}

TEST_F(BoundSessionTest, TriesAgainAfterADelay) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_DELAY};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

// ---- CB_CREDITRECALL ----

TEST_F(BoundSessionTest, ACreditRecallLowersTheStreamidsInUse) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  EXPECT_EQ(StatusOf(*RecallCredits(0)), nfsstat4::NFS4ERR_INVAL);
  EXPECT_EQ(bound->streams().limit(), 8u);
  EXPECT_EQ(StatusOf(*RecallCredits(2)), nfsstat4::NFS4_OK);
  server.latency = 1ms;
  server.streams_seen.clear();
  StartRemoves(10);
  ExpectAllToSucceed();
  EXPECT_EQ(server.streams_seen, (std::set<uint32_t>{0, 1}));
}

TEST_F(BoundSessionTest, ACreditRecallWaitsForRequestsAboveItsTarget) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  server.holds_calls = true;
  StartRemoves(4);
  TurnFor(loop, 1ms);
  const auto reply = RecallCredits(1);
  EXPECT_TRUE(reply->empty());
  server.ReleaseCalls();
  ExpectAllToSucceed();
  EXPECT_FALSE(reply->empty());
  EXPECT_EQ(StatusOf(*reply), nfsstat4::NFS4_OK);
  EXPECT_EQ(bound->streams().limit(), 1u);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
