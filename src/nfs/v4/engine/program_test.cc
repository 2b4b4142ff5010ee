#include "nfs/v4/engine/program.h"

#include "nfs/v4/engine/nfs4_test.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4 {
namespace {

class ProgramTest : public Nfs4Test {
 protected:
  CompoundReply Send(rpc::Message call) { return CompoundReply(server.Ask(std::move(call))); }
};
using SequenceTest = ProgramTest;

TEST_F(ProgramTest, NullDoesNothing) {
  xdr::Encoder encoder(server.buffers);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 0, rpc::ClientCredential().auth(), {}});
  EXPECT_TRUE(server.Ask(encoder.Finish()).succeeded());
}

TEST_F(ProgramTest, AcceptsACompoundWithoutOperations) {
  for (const uint32_t minor_version : {0u, 1u, 2u}) {
    const auto reply = server.Run(minor_version);
    EXPECT_EQ(reply.status, NFS4_OK);
    EXPECT_EQ(reply.count, 0u);
  }
}

TEST_F(ProgramTest, ReturnsTheTag) {
  EXPECT_EQ(Send(server.EncodeTagged(0, "a tag", PutRoot())).tag, "a tag");
  EXPECT_EQ(Send(server.EncodeTagged(9, "a tag", PutRoot())).tag, "a tag");
}

TEST_F(ProgramTest, RejectsATagThatIsNotUtf8) {
  const auto reply = Send(server.EncodeTagged(0, "\xc0\x80", PutRoot()));
  EXPECT_EQ(reply.status, NFS4ERR_INVAL);
  EXPECT_EQ(reply.count, 0u);
}

TEST_F(ProgramTest, RejectsAnUnknownMinorVersionWithoutExecution) {
  const auto reply = server.Run(3, Op(OP_ILLEGAL));
  EXPECT_EQ(reply.status, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_EQ(reply.count, 0u);
}

TEST_F(ProgramTest, StopsAtTheFirstFailure) {
  auto reply = Run0(PutRoot(), LookUp("none"), GetFh());
  EXPECT_EQ(reply.status, NFS4ERR_NOENT);
  EXPECT_EQ(reply.count, 2u);
  EXPECT_EQ(reply.Skip().Next<LOOKUP4res>().status, NFS4ERR_NOENT);
}

TEST_F(ProgramTest, AnUnknownOperationIsIllegal) {
  for (const uint32_t number : {0u, 2u, 40u, 53u, 76u, 10044u}) {
    auto reply = Run0(PutRoot(), Op(static_cast<nfs_opnum4>(number)));
    EXPECT_EQ(reply.status, NFS4ERR_OP_ILLEGAL) << number;
    EXPECT_EQ(reply.Skip().Next<ILLEGAL4res>().status, NFS4ERR_OP_ILLEGAL);
    EXPECT_EQ(reply.last_number(), OP_ILLEGAL);
  }
}

TEST_F(ProgramTest, AnUnimplementedOperationOfTheMinorVersionIsNotSupported) {
  for (const nfs_opnum4 number : {OP_LAYOUTGET, OP_GETDEVICEINFO, OP_SETCLIENTID, OP_RENEW, OP_OPEN_CONFIRM}) {
    EXPECT_EQ(Run(PutRoot(), Op(number)).status, NFS4ERR_NOTSUPP) << XdrName(number);
  }
}

TEST_F(ProgramTest, AnOperationOfALaterMinorVersionIsIllegal) {
  SessionClient client(server, "of 4.1", 1);
  EXPECT_EQ(client.Run(PutRoot(), Op(OP_SEEK)).status, NFS4ERR_OP_ILLEGAL);
  EXPECT_EQ(client.Run(PutRoot(), Op(OP_GETXATTR)).status, NFS4ERR_OP_ILLEGAL);
}

TEST_F(ProgramTest, MalformedArgumentsFailWithBadxdr) {
  auto reply = Run0(PutRoot(), Op(OP_LOOKUP, uint32_t{100}));
  EXPECT_EQ(reply.status, NFS4ERR_BADXDR);
  EXPECT_EQ(reply.Skip().Next<LOOKUP4res>().status, NFS4ERR_BADXDR);
}

TEST_F(ProgramTest, ACompoundWithFewerOperationsThanAnnouncedFails) {
  xdr::Encoder encoder(server.buffers);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 1, rpc::ClientCredential().auth(), {}});
  xdr::Encode(encoder, COMPOUND4args_head{"", 0, 3});
  xdr::Encode(encoder, OP_PUTROOTFH);
  const auto reply = Send(encoder.Finish());
  EXPECT_EQ(reply.status, NFS4ERR_BADXDR);
  EXPECT_EQ(reply.count, 2u);
}

TEST_F(ProgramTest, AMalformedHeadIsGarbage) {
  xdr::Encoder encoder(server.buffers);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 1, rpc::ClientCredential().auth(), {}});
  encoder.U32(7);
  EXPECT_EQ(server.Ask(encoder.Finish()).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
}

TEST_F(ProgramTest, OctetsBehindTheLastOperationAreGarbage) {
  xdr::Encoder encoder(server.buffers);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 1, rpc::ClientCredential().auth(), {}});
  xdr::Encode(encoder, COMPOUND4args_head{"", 0, 1});
  xdr::Encode(encoder, OP_PUTROOTFH);
  encoder.U32(0);
  EXPECT_EQ(server.Ask(encoder.Finish()).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
}

TEST_F(ProgramTest, TooManyOperationsFailWithResource) {
  xdr::Encoder encoder(server.buffers);
  rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 1, rpc::ClientCredential().auth(), {}});
  xdr::Encode(encoder, COMPOUND4args_head{"", 0, 1000});
  for (int i = 0; i < 1000; ++i) xdr::Encode(encoder, OP_PUTROOTFH);
  const auto reply = Send(encoder.Finish());
  EXPECT_EQ(reply.status, NFS4ERR_RESOURCE);
  EXPECT_EQ(reply.count, server.settings.max_operations + 1);
}

// RFC 8166 §6.1: the server executes no operation of the call, not even the operations before the misplaced item.
TEST_F(ProgramTest, DoesNotExecuteACallWithAReducedItemThatIsNotDdpEligible) {
  MakeFile("file");
  for (uint32_t minor = 0; minor <= 2; ++minor) {
    rpc::Message call =
        server.Encode(minor, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"}), Op(OP_LOOKUP, LOOKUP4args{"name"}));
    const size_t at = call.stream.size() - 4;
    call.items.push_back({.offset = at, .data = call.stream.Sub(at, 4)});
    call.stream = call.stream.Sub(0, at);
    EXPECT_EQ(server.Ask(std::move(call)).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS) << minor;
    EXPECT_EQ(Run0(PutRoot(), LookUp("file")).status, NFS4_OK) << minor;
  }
}

// The duplicate request cache recognises repeated requests of minor version 0.
TEST_F(ProgramTest, ExecutesARepeatedChangeOnce) {
  MakeFile("file");
  const auto remove = [&] { return server.Encode(0, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})); };
  rpc::Message first = remove();
  --server.last_xid;
  rpc::Message again = remove();
  EXPECT_EQ(Send(std::move(first)).status, NFS4_OK);
  EXPECT_EQ(Send(std::move(again)).status, NFS4_OK);
  EXPECT_EQ(Send(remove()).status, NFS4ERR_NOENT);
}

// A client sends a WRITE, sends it again over another connection before the server reads the first one, and then writes
// other data.
TEST_F(ProgramTest, ALateWriteDoesNotOverwriteNewerData) {
  MakeFile("file");
  const auto write = [&](uint32_t xid, std::string_view data) {
    server.last_xid = xid - 1;
    return server.Encode(0, PutRoot(), LookUp("file"),
                         Op(OP_WRITE, WRITE4args{{}, 0, FILE_SYNC4, xdr::Payload<>::Borrowed(data)}));
  };
  const auto expect_newer = [&] {
    server.peer.connection = 2;
    server.last_xid += 100;
    const auto reply = Run0(PutRoot(), LookUp("file"), Op(OP_READ, READ4args{{}, 0, 100}));
    ASSERT_EQ(reply.answer().message.items.size(), 1u);
    EXPECT_EQ(AsText(reply.answer().message.items[0].data.bytes()), "newer");
  };
  server.peer.connection = 2;
  EXPECT_EQ(Send(write(77, "older")).status, NFS4_OK);
  EXPECT_EQ(Send(write(78, "newer")).status, NFS4_OK);
  EXPECT_EQ(Send(write(77, "older")).status, NFS4_OK);
  expect_newer();
  server.peer.connection = 1;
  const auto& late = server.Ask(write(77, "older"));
  EXPECT_TRUE(late.message.empty()) << "it has no reply";
  expect_newer();
}

TEST_F(ProgramTest, DoesNotRememberRepliesToReadOnlyRequests) {
  MakeFile("file");
  EXPECT_EQ(Run0(PutRoot(), LookUp("file"), GetAttr({FATTR4_SIZE})).status, NFS4_OK);
  EXPECT_EQ(server.cache.entries(), 0u);
}

TEST_F(SequenceTest, MustBeTheFirstOperation) {
  EXPECT_EQ(Run(PutRoot(), Op(OP_SEQUENCE, SEQUENCE4args{})).status, NFS4ERR_SEQUENCE_POS);
}

TEST_F(SequenceTest, OtherOperationsRequireASession) {
  auto reply = server.Run(1, PutRoot());
  EXPECT_EQ(reply.status, NFS4ERR_OP_NOT_IN_SESSION);
  EXPECT_EQ(reply.count, 1u);
  EXPECT_EQ(server.Run(1, Op(OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args{1}), PutRoot()).status, NFS4ERR_NOT_ONLY_OP);
}

// RFC 8881 §18.34.3, §18.35.3, §18.36.3, §18.37.3
TEST_F(SequenceTest, OperationsThatNeedNoSessionStandAlone) {
  EXPECT_EQ(server.Run(1, Op(OP_BIND_CONN_TO_SESSION, BIND_CONN_TO_SESSION4args{}), PutRoot()).status,
            NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(server.Run(1, Op(OP_EXCHANGE_ID, EXCHANGE_ID4args{}), PutRoot()).status, NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(server.Run(1, Op(OP_CREATE_SESSION, CREATE_SESSION4args{}), PutRoot()).status, NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(server.Run(1, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{}), PutRoot()).status, NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(Run(Op(OP_BIND_CONN_TO_SESSION, BIND_CONN_TO_SESSION4args{})).status, NFS4ERR_NOT_ONLY_OP);
}

TEST_F(SequenceTest, FailsForAnUnknownSession) {
  EXPECT_EQ(server.Run(1, Op(OP_SEQUENCE, SEQUENCE4args{})).status, NFS4ERR_BADSESSION);
}

TEST_F(SequenceTest, ARetryGetsTheKeptReply) {
  MakeFile("file");
  const auto sequence = Client().Sequence(true);
  const auto remove = [&] { return server.Encode(2, sequence, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})); };
  const auto first = Send(remove());
  EXPECT_EQ(first.status, NFS4_OK);
  const auto again = Send(remove());
  EXPECT_EQ(again.status, NFS4_OK);
  EXPECT_EQ(again.count, 3u);
  const auto results = [](const CompoundReply& reply) {
    return reply.answer().message.stream.bytes().subspan(reply.answer().results_at);
  };
  EXPECT_TRUE(Equal(results(first), results(again)));
}

// RFC 8881 §2.10.6.4
TEST_F(SequenceTest, ARetryOfAFailedRequestGetsTheSameError) {
  const auto sequence = Client().Sequence(true);
  const auto remove = [&] { return server.Encode(2, sequence, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})); };
  EXPECT_EQ(Send(remove()).status, NFS4ERR_NOENT);
  MakeFile("file");
  const auto again = Send(remove());
  EXPECT_EQ(again.status, NFS4ERR_NOENT);
  EXPECT_EQ(again.count, 3u);
  EXPECT_TRUE(AttributesOf("file"));
}

TEST_F(SequenceTest, AKeptReplyStillHasItsPayloads) {
  const nfs_fh4 file = MakeFile("file", "contents");
  const auto sequence = Client().Sequence(true);
  const auto read = [&] { return server.Encode(2, sequence, PutFh(file), Op(OP_READ, READ4args{{}, 0, 100})); };
  Send(read());
  auto again = Send(read());
  EXPECT_EQ(again.Next<SEQUENCE4res>().sr_status(), NFS4_OK);
  EXPECT_EQ(again.Skip().Next<READ4res>().resok4().data.text(), "contents");
  EXPECT_EQ(again.answer().message.items.size(), 1u);
}

TEST_F(SequenceTest, ARetryWithoutAKeptReplyFailsWithRetryUncachedRep) {
  MakeFile("file");
  const auto sequence = Client().Sequence(false);
  const auto remove = [&] { return server.Encode(2, sequence, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})); };
  EXPECT_EQ(Send(remove()).status, NFS4_OK);
  const auto again = Send(remove());
  EXPECT_EQ(again.status, NFS4ERR_RETRY_UNCACHED_REP);
  EXPECT_EQ(again.count, 2u);
}

// RFC 8881 §2.10.6.1.3
TEST_F(SequenceTest, ARetryOfAnIllegalOperationGetsTheSameError) {
  const auto sequence = Client().Sequence(false);
  const auto renew = [&] { return server.Encode(2, sequence, Op(OP_RENEW, RENEW4args{1})); };
  EXPECT_EQ(Send(renew()).status, NFS4ERR_NOTSUPP);
  EXPECT_EQ(Send(renew()).status, NFS4ERR_NOTSUPP);
}

TEST_F(SequenceTest, TheDuplicateRequestCacheHoldsNoRepliesOfSessions) {
  MakeFile("file");
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
  EXPECT_EQ(server.cache.entries(), 0u);
}

TEST_F(SequenceTest, DoesNotSendAReplyThatIsTooLargeToKeep) {
  const nfs_fh4 file = MakeFile("file", std::string(8192, 'x'));
  const auto read = Op(OP_READ, READ4args{{}, 0, 8192});
  auto reply = Send(server.Encode(2, Client().Sequence(true), PutFh(file), read));
  EXPECT_EQ(reply.status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_EQ(reply.count, 3u);
  EXPECT_TRUE(reply.answer().message.items.empty());
  EXPECT_EQ(Send(server.Encode(2, Client().Sequence(false), PutFh(file), read)).status, NFS4_OK);
}

TEST_F(SequenceTest, DoesNotExecuteAnOperationWhoseResultMayNotFit) {
  MakeFile("file");
  // All results but the last one fit in the reply that the slot may keep.
  constexpr uint32_t kData = 3960;
  const nfs_fh4 data = MakeFile("data", std::string(kData, 'x'));
  const auto read = Op(OP_READ, READ4args{{}, 0, kData});
  EXPECT_EQ(Send(server.Encode(2, Client().Sequence(true), PutFh(data), read, PutRoot())).status, NFS4_OK);
  const auto reply =
      Send(server.Encode(2, Client().Sequence(true), PutFh(data), read, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})));
  EXPECT_EQ(reply.status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_TRUE(AttributesOf("file"));
}

TEST_F(SequenceTest, TheDigestOfARequestDoesNotDependOnTheTransport) {
  // The data is beside the stream in one call and inside the stream in the other: a retry may use another transport.
  const nfs_fh4 file = MakeFile("file");
  const auto sequence = Client().Sequence(true);
  const auto write = Op(OP_WRITE, WRITE4args{{}, 0, FILE_SYNC4, xdr::Payload<>::Borrowed("abcd")});
  EXPECT_EQ(Send(server.Encode(2, sequence, PutFh(file), write)).status, NFS4_OK);
  const rpc::Message beside = server.Encode(2, sequence, PutFh(file), write);
  EXPECT_EQ(Send(rpc::Message::Whole(xdr::Unreduce(server.buffers, beside))).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
