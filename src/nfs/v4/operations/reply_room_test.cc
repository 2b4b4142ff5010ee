// Tests of COMPOUNDs whose replies must fit in what an RDMA connection can send: a Send, the Reply chunk of the call
// and its Write chunks.
#include "nfs/v4/engine/bound_client_test.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

// In the reply: its RPC header, the head of the COMPOUND, and the results of OPERATION_CONTROL and PUTROOTFH.
constexpr size_t kBeforeThird = 24 + 12 + 12 + 8;
// REMOVE: number, status and change_info4.
constexpr size_t kRemove = 4 + 4 + 20;

class ReplyRoomTest : public BoundSessionTest {
 protected:
  ReplyRoomTest() {
    const uint64_t session = Create(first, "owner");
    first.transport = rpc::TransportKind::kRdma;
    channel_ = Bind(first, BindArguments(session, OPERATION, RDMA)).resok4().channelid;
  }
  CompoundReply Remove(std::string_view name) {
    return Request(first, Control(channel_, 0), PutRoot(), Op(OP_REMOVE, REMOVE4args{name}));
  }
  nfsstat4 StatusOfRead(uint32_t count) {
    const READ4args read{.stateid = {}, .offset = 0, .count = count};
    return Request(first, Control(channel_, 0), PutFh(file_), Op(OP_READ, read)).status;
  }

  const nfs_fh4 file_ = MakeFile("file", std::string(8000, 'x'));
  uint32_t channel_ = 0;
};

TEST_F(ReplyRoomTest, AChangeWhoseReplyCannotBeSentIsNotExecuted) {
  first.reply_room = kBeforeThird + kRemove - 4;
  EXPECT_EQ(Remove("file").status, NFS4ERR_TOOSMALL);
  EXPECT_TRUE(AttributesOf("file"));
  first.reply_room = kBeforeThird + kRemove;
  EXPECT_EQ(Remove("file").status, NFS4_OK);
  EXPECT_FALSE(AttributesOf("file"));
}

TEST_F(ReplyRoomTest, TheOperationThatOverflowsReportsIt) {
  first.reply_room = 1000;
  const READ4args read{.stateid = {}, .offset = 0, .count = 1000};
  const auto reply = Request(first, Control(channel_, 0), PutFh(file_), Op(OP_READ, read), PutRoot());
  EXPECT_EQ(reply.status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(reply.count, 3u);
}

TEST_F(ReplyRoomTest, AWriteChunkTakesThePayloadOfItsRead) {
  first.reply_room = 200;
  EXPECT_EQ(StatusOfRead(8000), NFS4ERR_TOOSMALL);
  first.payload_rooms = {8000};
  EXPECT_EQ(StatusOfRead(8000), NFS4_OK);
  first.payload_rooms = {7999};
  EXPECT_EQ(StatusOfRead(8000), NFS4ERR_TOOSMALL);
}

TEST_F(ReplyRoomTest, APayloadWithoutAWriteChunkIsAPartOfTheReply) {
  first.reply_room = 1000;
  first.payload_rooms = {500};
  const READ4args read{.stateid = {}, .offset = 0, .count = 500};
  const auto once = Op(OP_READ, read);
  EXPECT_EQ(Request(first, Control(channel_, 0), PutFh(file_), once, once).status, NFS4_OK);
  EXPECT_EQ(Request(first, Control(channel_, 0), PutFh(file_), once, once, once).status, NFS4ERR_TOOSMALL);
}

TEST_F(ReplyRoomTest, ReadDirectoryFillsTheRoom) {
  for (int i = 0; i < 20; ++i) MakeFile("entry" + std::to_string(i));
  const auto entries = [&](size_t room) {
    first.reply_room = room;
    const READDIR4args arguments{.cookie = 0, .cookieverf = {}, .dircount = 0, .maxcount = 4096, .attr_request = {}};
    auto reply = Request(first, Control(channel_, 0), PutRoot(), Op(OP_READDIR, arguments));
    EXPECT_EQ(reply.status, NFS4_OK);
    const auto read = reply.Skip().Next<READDIR4res>();
    return read.resok4().reply.entries.size();
  };
  EXPECT_EQ(entries(4096), 21u);
  const size_t few = entries(400);
  EXPECT_GT(few, 2u);
  EXPECT_LT(few, 15u);
}

// The size of the reply to a binding is that of the connection before.
TEST_F(ReplyRoomTest, OperationsBehindABindingMustFit) {
  const uint64_t session = Create(second, "another");
  second.transport = rpc::TransportKind::kRdma;
  second.reply_room = 1000;
  const auto bind = Op(OP_SESSION_BIND, BindArguments(session, OPERATION, RDMA));
  const READ4args read{.stateid = {}, .offset = 0, .count = 1000};
  EXPECT_EQ(RunOver(second, bind, PutFh(file_), Op(OP_READ, read)).status, NFS4ERR_TOOSMALL);
  EXPECT_TRUE(second.bound());
}

// ---- the RFCs ----

class ReplyRoomOfRfcsTest : public StatefulTest {
 protected:
  ReplyRoomOfRfcsTest() {
    Client();  // its session is made without limits
    Other();
    server.peer.control = &connection_;
    server.peer.transport = rpc::TransportKind::kRdma;
  }
  ~ReplyRoomOfRfcsTest() override { server.peer.control = nullptr; }

  TestConnection connection_{server.buffers};
  const nfs_fh4 file_ = MakeFile("file", std::string(8000, 'x'));
};

TEST_F(ReplyRoomOfRfcsTest, ARequestOfASessionDoesNotChangeWhatItCannotReport) {
  connection_.reply_room = 100;
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_REP_TOO_BIG);
  EXPECT_TRUE(AttributesOf("file"));
  connection_.reply_room = 200;
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
}

// The transport answers ERR_CHUNK (RFC 8267 §6.4.2).
TEST_F(ReplyRoomOfRfcsTest, AReadIsLeftToTheTransport) {
  const READ4args read{.stateid = {}, .offset = 0, .count = 8000};
  connection_.reply_room = 200;
  EXPECT_EQ(Run(PutFh(file_), Op(OP_READ, read)).status, NFS4_OK);
}

// The transport reports the failure (RFC 8166 §4.5, ERR_CHUNK).
TEST_F(ReplyRoomOfRfcsTest, WithoutASessionOnlyTheTransportJudges) {
  connection_.reply_room = 60;
  EXPECT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
}

// A denied lock changes nothing, so room for its long result is not needed in advance.
TEST_F(ReplyRoomOfRfcsTest, ALockNeedsRoomForItsStateidOnly) {
  const stateid4 open = OpenBy(Client(), "file", kBoth);
  const stateid4 others = OpenBy(Other(), "file", kBoth);
  connection_.reply_room = 300;
  const std::string owner(400, 'o');
  const auto lock = [&](SessionClient& client, const stateid4& under) {
    return client.Run(PutFh(file_), Locking(WRITE_LT, 0, 1, NewLocker(client.client(), under, owner))).status;
  };
  EXPECT_EQ(lock(Client(), open), NFS4_OK);
  EXPECT_EQ(lock(Other(), others), NFS4ERR_DENIED);
}

}  // namespace
}  // namespace penstock::nfs::v4
