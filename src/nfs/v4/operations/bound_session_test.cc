// The sessions of 2004 as COMPOUNDs: creation, binding, requests, chains and destruction. The tests in state/sess01
// cover the cases of the tables.
#include "nfs/v4/engine/bound_client_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;

class WithoutBoundSessionsTest : public BoundSessionTest {
 protected:
  WithoutBoundSessionsTest() : BoundSessionTest(Settings{}) {}
};

TEST_F(WithoutBoundSessionsTest, TheOperationsAreIllegal) {
  const auto reply = RunOver(first, SessionCreate("owner"));
  EXPECT_EQ(reply.status, NFS4ERR_OP_ILLEGAL);
}

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

// ---- SESSION_BIND ----

TEST_F(BoundSessionTest, BindsAStreamWithTheGrantedLimits) {
  SESSIONBIND4args asked = BindArguments(Create(first, "owner"));
  asked.maxrequestsize = 0;
  asked.maxrequests = 1000;
  const auto bound = Bind(first, asked);
  ASSERT_EQ(bound.status(), NFS4_OK);
  EXPECT_EQ(bound.resok4().channelid, 1u);
  EXPECT_EQ(bound.resok4().maxrequestsize, server.settings.max_request);
  EXPECT_EQ(bound.resok4().maxresponsesize, 4096u);
  EXPECT_EQ(bound.resok4().maxrequests, server.settings.max_streams);
  ASSERT_TRUE(first.limits);
  EXPECT_EQ(first.limits->credits, server.settings.max_streams);
  const xdr::Message octets = xdr::Message::Whole(Slice::Borrowed(bound.resok4().transportattrs.bytes()));
  const auto attributes = xdr::DecodeWhole<transportattrs4>(octets);
  ASSERT_TRUE(attributes);
  ASSERT_EQ(attributes->size(), 2u);
  EXPECT_EQ((*attributes)[0].type, TRANSPORTATTR4_MODE);
  EXPECT_EQ(LoadBig<uint32_t>((*attributes)[0].value.bytes().data()), static_cast<uint32_t>(STREAM));
  EXPECT_EQ((*attributes)[1].type, TRANSPORTATTR4_INSTANCE);
  EXPECT_EQ(LoadBig<uint64_t>((*attributes)[1].value.bytes().data()), Nfs4Server::kInstance);
}

TEST_F(BoundSessionTest, RefusesSizesThatAreTooSmall) {
  SESSIONBIND4args asked = BindArguments(Create(first, "owner"));
  asked.maxrequestsize = 2047;
  EXPECT_EQ(Bind(first, asked).status(), NFS4ERR_TOOSMALL);
  asked.maxrequestsize = 2048;
  asked.maxresponsesize = 1023;
  EXPECT_EQ(Bind(first, asked).status(), NFS4ERR_TOOSMALL);
  asked.maxresponsesize = 1024;
  EXPECT_EQ(Bind(first, asked).status(), NFS4_OK);
}

TEST_F(BoundSessionTest, RefusesTransportAttributesThatAreTooLongOrMalformed) {
  SESSIONBIND4args asked = BindArguments(Create(first, "owner"));
  const std::vector<std::byte> octets(1028);
  asked.transportattrs = ConstBytes(octets);
  EXPECT_EQ(Bind(first, asked).status(), NFS4ERR_INVAL);
  asked.transportattrs = ConstBytes(octets).first(3);
  EXPECT_EQ(Bind(first, asked).status(), NFS4ERR_BADXDR);
}

TEST_F(BoundSessionTest, IgnoresUnknownTransportAttributes) {
  SESSIONBIND4args asked = BindArguments(Create(first, "owner"));
  xdr::Encoder encoder(server.buffers);
  xdr::Encode(encoder, transportattrs4{{.type = 77, .value = AsBytes("x")}});
  const xdr::Message octets = encoder.Finish();
  asked.transportattrs = octets.stream.bytes();
  EXPECT_EQ(Bind(first, asked).status(), NFS4_OK);
}

TEST_F(BoundSessionTest, AnswersAForgedSessionLikeThatOfAnotherPrincipal) {
  const uint64_t session = Create(first, "owner");
  EXPECT_EQ(Bind(first, BindArguments(session ^ 1)).status(), NFS4ERR_SESS01_BADSESSION);
  server.SetUser(7);
  EXPECT_EQ(Bind(first, BindArguments(session)).status(), NFS4ERR_SESS01_BADSESSION);
}

TEST_F(BoundSessionTest, RefusesASecondOperationsChannelOrAnotherSessionOnAConnection) {
  const uint64_t session = Create(first, "owner");
  const uint64_t other = Create(second, "other");
  BindOperations(first, session);
  EXPECT_EQ(Bind(first, BindArguments(session)).status(), NFS4ERR_SESS01_BADBIND);
  EXPECT_EQ(Bind(first, BindArguments(other, BACK)).status(), NFS4ERR_SESS01_BADBIND);
}

TEST_F(BoundSessionTest, RefusesABackChannelAfterOperations) {
  const uint64_t session = Create(first, "owner");
  BindOperations(first, session);
  EXPECT_EQ(Bind(second, BindArguments(session, BACK)).status(), NFS4ERR_SESS01_BADBIND);
}

TEST_F(BoundSessionTest, OnlyReadsMayFollowABinding) {
  const uint64_t session = Create(first, "owner");
  const auto bind = Op(OP_SESSION_BIND, BindArguments(session));
  EXPECT_EQ(RunOver(first, bind, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_FALSE(first.bound());
  EXPECT_EQ(RunOver(first, bind, PutRoot(), GetFh()).status, NFS4_OK);
  EXPECT_TRUE(first.bound());
}

TEST_F(BoundSessionTest, AnRdmaConnectionDoesNotBecomeAStream) {
  const uint64_t session = Create(first, "owner");
  first.transport = rpc::TransportKind::kRdma;
  EXPECT_EQ(Bind(first, BindArguments(session)).status(), NFS4ERR_SESS01_BADBIND);
  EXPECT_EQ(Bind(first, BindArguments(session, OPERATION, RDMA)).status(), NFS4_OK);
}

TEST_F(BoundSessionTest, AnRdmaConnectionGetsItsLimitsByTheBinding) {
  first.transport = rpc::TransportKind::kRdma;
  const uint64_t session = Create(first, "owner");
  EXPECT_TRUE(first.kept_open) << "the reply to SESSION_CREATE does not use the connection up";
  EXPECT_FALSE(first.limits);
  SESSIONBIND4args asked = BindArguments(session, OPERATION, RDMA);
  asked.maxrdmareads = 3;
  const auto bound = Bind(first, asked);
  ASSERT_EQ(bound.status(), NFS4_OK);
  EXPECT_EQ(bound.resok4().maxrdmareads, 3u);
  ASSERT_TRUE(first.limits);
  EXPECT_EQ(*first.limits,
            (rpc::ConnectionLimits{.max_request = 4096, .max_response = 4096, .credits = 4, .reads = 3}));
}

// The operations channel may follow on the same connection, and asks for limits of its own.
TEST_F(BoundSessionTest, ABackChannelLeavesTheLimitsOpen) {
  const uint64_t session = Create(second, "owner");
  first.transport = rpc::TransportKind::kRdma;
  EXPECT_EQ(Bind(first, BindArguments(session, BACK, RDMA)).status(), NFS4_OK);
  EXPECT_TRUE(first.kept_open);
  EXPECT_FALSE(first.limits);
}

TEST_F(BoundSessionTest, AStreamStepsUpIfItsTransportCan) {
  const uint64_t session = Create(first, "owner");
  first.can_step_up = true;
  EXPECT_EQ(Bind(first, BindArguments(session, OPERATION, RDMA)).status(), NFS4_OK);
  EXPECT_TRUE(first.stepped_up);
  EXPECT_EQ(Bind(second, BindArguments(session, OPERATION, RDMA)).status(), NFS4_OK);
  EXPECT_FALSE(second.stepped_up);
  EXPECT_TRUE(second.bound());
}

// ---- the dialect of a COMPOUND ----

TEST_F(BoundSessionTest, ABoundConnectionSpeaksNothingElse) {
  BindOperations(first, Create(first, "owner"));
  Over(first);
  EXPECT_EQ(server.Run(0, PutRoot()).status, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_EQ(server.Run(2, PutRoot()).status, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_EQ(RunOver(first, PutRoot()).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(RunOver(first).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(RunOver(first, Op(OP_SEQUENCE, SEQUENCE4args{})).status, NFS4ERR_OP_ILLEGAL);
}

TEST_F(BoundSessionTest, OtherConnectionsSpeakTheRfcs) {
  BindOperations(first, Create(first, "owner"));
  Over(second);
  EXPECT_EQ(server.Run(0, PutRoot()).status, NFS4_OK);
  SessionClient client(server, "rfc8881", 1);
  EXPECT_EQ(client.Run(PutRoot(), GetFh()).status, NFS4_OK);
  EXPECT_EQ(client.Run(SessionCreate("x")).status, NFS4ERR_OP_ILLEGAL);
}

TEST_F(BoundSessionTest, TheOperationsThatSessionsReplaceAreNotSupported) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  for (const auto operation : {OP_OPEN_CONFIRM, OP_RENEW, OP_SETCLIENTID, OP_SETCLIENTID_CONFIRM}) {
    EXPECT_EQ(Request(first, Control(channel, 0), Op(operation)).status, NFS4ERR_NOTSUPP);
  }
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_EXCHANGE_ID)).status, NFS4ERR_OP_ILLEGAL);
}

// ---- OPERATION_CONTROL ----

TEST_F(BoundSessionTest, OperationControlStandsFirstAndOnce) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  const auto reply = RunOver(first, Control(channel, 0), PutRoot(), Control(channel, 1));
  EXPECT_EQ(reply.status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(reply.count, 3u);
  EXPECT_EQ(RunOver(second, Control(channel, 0)).status, NFS4ERR_SESS01_NOT_BOUND);
}

TEST_F(BoundSessionTest, ReturnsTheStreamId) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(RunOver(first, Control(channel, 3)).Next<OPERATIONCONTROL4res>().streamid(), 3u);
}

TEST_F(BoundSessionTest, RefusesUnknownStreamsAndChannels) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(RunOver(first, Control(channel, 4)).status, NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(RunOver(first, Control(channel, UINT32_MAX)).status, NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(RunOver(first, Control(0, 0)).status, NFS4ERR_SESS01_BADCHANNEL);
  EXPECT_EQ(RunOver(first, Control(channel + 1, 0)).status, NFS4ERR_SESS01_BADCHANNEL);
}

TEST_F(BoundSessionTest, AnUnknownChainFlagIsBadXdr) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  const auto words = Op(OP_OPERATION_CONTROL, std::array<uint32_t, 3>{channel, 0, 4});
  EXPECT_EQ(RunOver(first, words).status, NFS4ERR_BADXDR);
}

TEST_F(BoundSessionTest, ARetryOverAnotherConnectionGetsTheKeptReply) {
  const uint64_t session = Create(first, "owner");
  const uint32_t channel = BindOperations(first, session);
  MakeFile("file");
  const auto remove = Op(OP_REMOVE, REMOVE4args{"file"});
  EXPECT_EQ(Request(first, Control(channel, 0), PutRoot(), remove).status, NFS4_OK);
  const uint32_t xid = server.last_xid;
  BindOperations(second, session);
  server.last_xid = xid;
  EXPECT_EQ(Again(second, Control(channel, 0), PutRoot(), remove).status, NFS4_OK);
  // The retry has replaced the first connection, so nothing late on it is executed.
  EXPECT_FALSE(first.way->connected());
  EXPECT_EQ(RunOver(first, Control(channel, 1), PutRoot()).status, NFS4ERR_SESS01_NOT_BOUND);
}

TEST_F(BoundSessionTest, ARetryOfARequestThatNeverCameIsExecuted) {
  const uint64_t session = Create(first, "owner");
  const uint32_t channel = BindOperations(first, session);
  BindOperations(second, session);
  MakeFile("file");
  const auto reply = RunOver(second, Control(channel, 0), PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"}));
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_FALSE(AttributesOf("file"));
}

TEST_F(BoundSessionTest, AStaleRetryIsNotExecuted) {
  const uint64_t session = Create(first, "owner");
  const uint32_t channel = BindOperations(first, session);
  const uint32_t other = BindOperations(second, session);
  TestConnection third(server.buffers);
  BindOperations(third, session);
  const auto make = Op(OP_REMOVE, REMOVE4args{"file"});
  MakeFile("file");
  // The request is lost on the first connection, and executed as a retry over the second one.
  EXPECT_EQ(RunOver(second, Control(channel, 0), PutRoot(), make).status, NFS4_OK);
  const uint32_t xid = server.last_xid;
  EXPECT_EQ(Request(second, Control(other, 0), PutRoot()).status, NFS4_OK);
  MakeFile("file");
  // Another copy of the retry arrives late over the third connection.
  server.last_xid = xid - 1;
  EXPECT_EQ(RunOver(third, Control(channel, 0), PutRoot(), make).status, NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_TRUE(AttributesOf("file"));
}

TEST_F(BoundSessionTest, ARequestAboveTheAgreedSizeIsRefused) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  const std::string name(4096, 'x');
  EXPECT_EQ(RunOver(first, Control(channel, 0), PutRoot(), LookUp(name)).status, NFS4ERR_TOOSMALL);
}

TEST_F(BoundSessionTest, AReplyAboveTheAgreedSizeEndsWithTooSmall) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  const nfs_fh4 file = MakeFile("file", std::string(8192, 'x'));
  const READ4args read{.stateid = {}, .offset = 0, .count = 8192};
  const auto reply = Request(first, Control(channel, 0), PutFh(file), Op(OP_READ, read));
  EXPECT_EQ(reply.status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(reply.count, 3u);
}

TEST_F(BoundSessionTest, AChangeWhoseReplyWouldNotFitIsNotExecuted) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  const nfs_fh4 file = MakeFile("file", std::string(4000, 'x'));
  const READ4args read{.stateid = {}, .offset = 0, .count = 4000};
  const auto reply = Request(first, Control(channel, 0), PutFh(file), Op(OP_READ, read), PutRoot(),
                             Op(OP_REMOVE, REMOVE4args{"file"}));
  EXPECT_EQ(reply.status, NFS4ERR_TOOSMALL);
  EXPECT_TRUE(AttributesOf("file"));
}

// ---- chains ----

TEST_F(BoundSessionTest, FilehandlesLastOverAChain) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  MakeFile("file");
  EXPECT_EQ(Request(first, Control(channel, 0, CHAINBEGIN), PutRoot(), SaveFh(), LookUp("file")).status, NFS4_OK);
  auto reply = Request(first, Control(channel, 1, CHAINCONTINUE), GetFh(), RestoreFh());
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(Request(first, Control(channel, 0, CHAINEND), LookUp("file")).status, NFS4_OK);
  EXPECT_EQ(Request(first, Control(channel, 0), GetFh()).status, NFS4ERR_NOFILEHANDLE);
}

TEST_F(BoundSessionTest, AFailureBreaksAChain) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(Request(first, Control(channel, 0, CHAINBEGIN), PutRoot(), LookUp("none")).status, NFS4ERR_NOENT);
  EXPECT_EQ(RunOver(first, Control(channel, 1, CHAINCONTINUE), PutRoot()).status, NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_EQ(RunOver(first, Control(channel, 1, CHAINBEGIN), PutRoot()).status, NFS4ERR_SESS01_CHAIN_INVALID);
  EXPECT_EQ(RunOver(first, Control(channel, 1, CHAINEND), PutRoot()).status, NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_EQ(RunOver(first, Control(channel, 1, CHAINEND), PutRoot()).status, NFS4ERR_SESS01_CHAIN_INVALID);
  EXPECT_EQ(RunOver(first, Control(channel, 1, CHAINBEGIN), PutRoot()).status, NFS4_OK);
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

TEST_F(BoundSessionTest, SessionDestroyStandsLast) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(RunOver(first, Op(OP_SESSION_DESTROY)).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY), PutRoot()).status, NFS4ERR_SESS01_CONTROL_POS);
  EXPECT_EQ(Request(first, Control(channel, 0), PutRoot(), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
}

TEST_F(BoundSessionTest, AnotherPrincipalMayNotDestroyTheSession) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  server.SetUser(7);
  EXPECT_EQ(Request(first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4ERR_ACCESS);
}

}  // namespace
}  // namespace penstock::nfs::v4
