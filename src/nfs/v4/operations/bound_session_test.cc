// The sessions of 2004 as COMPOUNDs: bindings, requests and chains. bound_creation_test.cc tests the beginning and the
// end of sessions. The tests in state/sess01 cover the cases of the tables.
#include <algorithm>
#include <string>
#include <utility>

#include "nfs/v4/engine/bound_client_test.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;

// Returns the call as it arrives behind an RDMA_MSGP header: its payload begins on a multiple of `boundary`.
rpc::Message Padded(BufferPool& buffers, const rpc::Message& call, uint32_t boundary) {
  const xdr::Padding padding{.boundary = boundary, .threshold = 512, .offset = 36};
  const xdr::Item& item = call.items.front();
  const size_t pad = padding.PadAt(item.offset, item.data.size());
  rpc::Message plain = rpc::Message::Whole(xdr::Unreduce(buffers, call));
  BufferRef buffer = buffers.Allocate(plain.stream.size() + pad);
  const Bytes octets = buffer->bytes().first(plain.stream.size() + pad);
  CopyBytes(octets, plain.stream.bytes().first(item.offset));
  std::ranges::fill(octets.subspan(item.offset, pad), std::byte{0});
  CopyBytes(octets.subspan(item.offset + pad), plain.stream.bytes().subspan(item.offset));
  rpc::Message padded = rpc::Message::Whole(Slice(std::move(buffer), octets));
  padded.padding = padding;
  return padded;
}

// Padded calls over two connections of a session.
class PaddedWriteTest : public BoundSessionTest {
 protected:
  PaddedWriteTest() { MakeFile("file"); }

  rpc::Message Write(uint32_t stream, std::string_view data) {
    return server.Encode(1, Control(channel_, stream), PutRoot(), LookUp("file"),
                         Op(OP_WRITE, WRITE4args{{}, 0, FILE_SYNC4, xdr::Payload<>::Borrowed(data)}), GetFh());
  }
  nfsstat4 Ask(TestConnection& connection, rpc::Message call) {
    Over(connection);
    return CompoundReply(server.Ask(std::move(call))).status;
  }
  std::string Contents(TestConnection& connection, uint32_t channel) {
    const auto read = Op(OP_READ, READ4args{.stateid = {}, .offset = 0, .count = 4096});
    auto reply = Request(connection, Control(channel, 3), PutRoot(), LookUp("file"), read);
    const auto result = reply.Skip(2).Next<READ4res>();
    return result.is_resok4() ? std::string(result.resok4().data.text()) : std::string();
  }

  const uint64_t session_ = Create(first, "owner");
  const uint32_t channel_ = BindOperations(first, session_);
};

class WithoutBoundSessionsTest : public BoundSessionTest {
 protected:
  WithoutBoundSessionsTest() : BoundSessionTest(Settings{}) {}
};

TEST_F(WithoutBoundSessionsTest, TheOperationsAreIllegal) {
  const auto reply = RunOver(first, SessionCreate("owner"));
  EXPECT_EQ(reply.status, NFS4ERR_OP_ILLEGAL);
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
  EXPECT_EQ(bound.resok4().maxrequests, 4u) << "the totalrequests of the session";
  ASSERT_TRUE(first.limits);
  EXPECT_EQ(first.limits->credits, 4u);
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

// ---- header padding (§2.8) ----

TEST_F(BoundSessionTest, GrantsABoundaryWithinTheRequestedOne) {
  const std::pair<uint32_t, uint32_t> cases[] = {{0, 0},    {63, 0},      {64, 64},
                                                 {100, 64}, {4096, 4096}, {UINT32_MAX, 4096}};
  const uint64_t session = Create(first, "owner");
  for (const auto& [wanted, granted] : cases) {
    TestConnection connection(server.buffers);
    connection.can_step_up = true;
    SESSIONBIND4args asked = BindArguments(session, OPERATION, RDMA);
    asked.headerpadsize = wanted;
    const auto bound = Bind(connection, asked);
    ASSERT_EQ(bound.status(), NFS4_OK);
    EXPECT_EQ(bound.resok4().headerpadsize, granted) << wanted;
    EXPECT_EQ(connection.limits->padding, granted) << wanted;
  }
}

TEST_F(BoundSessionTest, ABackChannelHasNoPadding) {
  first.can_step_up = true;
  SESSIONBIND4args asked = BindArguments(Create(first, "owner"), BACK, RDMA);
  asked.headerpadsize = 512;
  const auto bound = Bind(first, asked);
  ASSERT_EQ(bound.status(), NFS4_OK);
  EXPECT_EQ(bound.resok4().headerpadsize, 0u);
  EXPECT_EQ(first.limits->padding, 0u);
}

TEST_F(PaddedWriteTest, APaddedWriteIsExecuted) {
  const std::string data(600, 'a');
  EXPECT_EQ(Ask(first, Padded(server.buffers, Write(0, data), 512)), NFS4_OK);
  EXPECT_EQ(Contents(first, channel_), data);
}

// A retry over another connection has other pads, or none.
TEST_F(PaddedWriteTest, RecognizesARetryWithOtherPads) {
  const std::string data(600, 'a'), later(600, 'b');
  EXPECT_EQ(Ask(first, Padded(server.buffers, Write(0, data), 512)), NFS4_OK);
  const uint32_t xid = server.last_xid;
  EXPECT_EQ(Ask(first, Write(1, later)), NFS4_OK);
  for (const uint32_t boundary : {0, 64, 512}) {
    TestConnection connection(server.buffers);
    BindOperations(connection, session_);
    server.last_xid = xid - 1;
    rpc::Message retry = Write(0, data);
    if (boundary > 0) retry = Padded(server.buffers, retry, boundary);
    EXPECT_EQ(Ask(connection, std::move(retry)), NFS4_OK);
  }
  server.last_xid = xid + 100;
  EXPECT_EQ(Contents(second, BindOperations(second, session_)), later) << "no retry was executed";
}

TEST_F(PaddedWriteTest, APadBeyondTheRequestIsBadXdr) {
  rpc::Message call = Padded(server.buffers, Write(0, std::string(600, 'a')), 4096);
  call.stream = call.stream.Sub(0, 300);
  EXPECT_EQ(Ask(first, std::move(call)), NFS4ERR_BADXDR);
  EXPECT_EQ(Contents(first, channel_), "");
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

class FewOperationsTest : public BoundSessionTest {
 protected:
  FewOperationsTest() : BoundSessionTest({.max_bound_operations = 3, .bound_sessions = true}) {}
};

TEST_F(FewOperationsTest, RefusesARequestWithTooManyOperations) {
  const uint32_t channel = BindOperations(first, Create(first, "owner"));
  EXPECT_EQ(RunOver(first, Control(channel, 0), PutRoot(), SaveFh(), GetFh()).status, NFS4ERR_RESOURCE);
  // Its streamid is still unused.
  EXPECT_EQ(Again(first, Control(channel, 0), PutRoot(), GetFh()).status, NFS4_OK);
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

}  // namespace
}  // namespace penstock::nfs::v4
