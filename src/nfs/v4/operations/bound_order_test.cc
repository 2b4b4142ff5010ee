// The sessions of 2004 judge the requests of a channel in the order in which they arrived, also if the arguments of a
// request come late: in Read chunks, or sealed by RPCSEC_GSS.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nfs/v4/engine/bound_client_test.h"
#include "rpc/call_order.h"

namespace penstock::nfs::v4 {
namespace {

// The calls over the first connection are listed in its order.
class BoundOrderTest : public BoundSessionTest {
 protected:
  using Lateness = rpc::CallOrder::Lateness;

  BoundOrderTest() { MakeFile("file"); }

  void OverFirst() {
    Over(first);
    server.peer.order = &order_;
  }
  void OverSecond() {
    Over(second);
    server.peer.order = nullptr;
  }
  // A WRITE with the next XID.
  rpc::Message Write(uint32_t stream, std::string_view data, ChainFlags flag = NOCHAIN) {
    return server.Encode(1, Control(channel_, stream, flag), PutRoot(), LookUp("file"),
                         Op(OP_WRITE, WRITE4args{{}, 0, FILE_SYNC4, xdr::Payload<>::Borrowed(data)}));
  }
  template <class... Arguments>
  rpc::Message Plain(uint32_t stream, ChainFlags flag, const Sent<Arguments>&... operations) {
    return server.Encode(1, Control(channel_, stream, flag), operations...);
  }
  // The last encoded call has arrived over the first connection.
  rpc::CallOrder::Place Arrive(Lateness lateness = Lateness::kPayload) {
    return order_.Enter(rpc::Xid(server.last_xid), lateness);
  }
  nfsstat4 Ask(rpc::Message call) { return CompoundReply(server.Ask(std::move(call))).status; }
  nfsstat4 AskOverSecond(uint32_t stream) {
    OverSecond();
    return RunOver(second, Control(other_channel_, stream), PutRoot()).status;
  }

  rpc::CallOrder order_;
  const uint64_t session_ = Create(first, "owner");
  const uint32_t channel_ = BindOperations(first, session_);
  const uint32_t other_channel_ = BindOperations(second, session_);
};

TEST_F(BoundOrderTest, ARequestWhosePayloadIsOnItsWayHasItsStream) {
  OverFirst();
  rpc::Message write = Write(0, "data");
  const auto place = Arrive();
  server.Preview(write);
  EXPECT_EQ(AskOverSecond(0), NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(AskOverSecond(1), NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "") << "the preview must execute nothing";
  OverFirst();
  EXPECT_EQ(Ask(std::move(write)), NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "data");
  EXPECT_EQ(AskOverSecond(0), NFS4_OK);
}

TEST_F(BoundOrderTest, ARequestWhosePayloadNeverCameWasNeverReceived) {
  OverFirst();
  const rpc::Message write = Write(0, "data");
  const uint32_t xid = server.last_xid;
  std::optional<rpc::CallOrder::Place> place(Arrive());
  server.Preview(write);
  place.reset();
  // The client sends the request again over its other connection.
  OverSecond();
  server.last_xid = xid - 1;
  EXPECT_EQ(Ask(Write(0, "data")), NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "data");
}

TEST_F(BoundOrderTest, ARetryWaitsForTheRequestWhosePayloadIsOnItsWay) {
  OverFirst();
  const rpc::Message write = Write(0, "data");
  const uint32_t xid = server.last_xid;
  std::optional<rpc::CallOrder::Place> place(Arrive());
  server.Preview(write);
  OverSecond();
  server.last_xid = xid - 1;
  const bool& ended = server.Begin(Write(0, "data"));
  EXPECT_FALSE(first.way->connected()) << "the retry has replaced its connection";
  EXPECT_FALSE(ended);
  place.reset();
  EXPECT_TRUE(ended);
  EXPECT_EQ(ContentsOf("file"), "data");
}

TEST_F(BoundOrderTest, ARetryWhosePayloadIsOnItsWayGetsTheKeptReply) {
  OverFirst();
  EXPECT_EQ(Ask(Plain(0, NOCHAIN, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"}))), NFS4_OK);
  const uint32_t xid = server.last_xid;
  OverSecond();
  server.peer.order = &order_;
  server.last_xid = xid - 1;
  rpc::Message again = Plain(0, NOCHAIN, PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"}));
  const auto place = Arrive();
  server.Preview(again);
  MakeFile("file");
  EXPECT_EQ(Ask(std::move(again)), NFS4_OK);
  EXPECT_TRUE(AttributesOf("file")) << "the retry must not be executed";
}

TEST_F(BoundOrderTest, ARequestOfAChainAwaitsTheJudgementOfALateBeginning) {
  OverFirst();
  rpc::Message begin = Plain(0, CHAINBEGIN, PutRoot(), LookUp("file"));
  const auto begin_place = Arrive();
  rpc::Message end = Plain(1, CHAINEND, GetFh());
  const auto end_place = Arrive(Lateness::kArguments);
  const bool& ended = server.Begin(std::move(end));
  EXPECT_FALSE(ended);
  EXPECT_EQ(Ask(std::move(begin)), NFS4_OK);
  EXPECT_TRUE(ended);
  EXPECT_EQ(AskOverSecond(1), NFS4_OK) << "the last request of the chain has ended";
}

TEST_F(BoundOrderTest, AnUnchainedRequestDoesNotEndAChainBeforeItsLateRequests) {
  OverFirst();
  EXPECT_EQ(Ask(Plain(0, CHAINBEGIN, PutRoot(), LookUp("file"))), NFS4_OK);
  rpc::Message late = Plain(1, CHAINCONTINUE, GetFh());
  const auto late_place = Arrive();
  rpc::Message alone = Plain(2, NOCHAIN, PutRoot());
  const auto alone_place = Arrive(Lateness::kArguments);
  const bool& ended = server.Begin(std::move(alone));
  EXPECT_FALSE(ended);
  EXPECT_EQ(Ask(std::move(late)), NFS4_OK);
  EXPECT_TRUE(ended);
}

TEST_F(BoundOrderTest, AChainWhoseRequestWasLostIsBroken) {
  OverFirst();
  EXPECT_EQ(Ask(Plain(0, CHAINBEGIN, PutRoot(), LookUp("file"))), NFS4_OK);
  const rpc::Message write = Write(1, "data", CHAINCONTINUE);
  std::optional<rpc::CallOrder::Place> lost(Arrive());
  server.Preview(write);
  rpc::Message end = Plain(2, CHAINEND, GetFh());
  const auto end_place = Arrive(Lateness::kArguments);
  const bool& ended = server.Begin(std::move(end));
  EXPECT_FALSE(ended) << "it waits for its turn in the chain";
  lost.reset();
  EXPECT_TRUE(ended);
  EXPECT_EQ(ContentsOf("file"), "");
}

TEST_F(BoundOrderTest, APreviewJudgesNothingBeforeTheEarlierCalls) {
  OverFirst();
  rpc::Message begin = Plain(0, CHAINBEGIN, PutRoot(), LookUp("file"));
  const auto begin_place = Arrive();
  rpc::Message write = Write(1, "data", CHAINEND);
  const auto write_place = Arrive();
  server.Preview(write);
  EXPECT_EQ(Ask(std::move(begin)), NFS4_OK);
  EXPECT_EQ(Ask(std::move(write)), NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "data");
}

TEST_F(BoundOrderTest, ACallDoesNotTakeTheJudgementOfAnotherWithItsXid) {
  OverFirst();
  rpc::Message write = Write(0, "data");
  const uint32_t xid = server.last_xid;
  const auto place = Arrive();
  server.Preview(write);
  server.last_xid = xid - 1;
  EXPECT_EQ(Ask(Plain(1, NOCHAIN, PutRoot(), LookUp("file"))), NFS4_OK);
  EXPECT_EQ(Ask(std::move(write)), NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "data");
  EXPECT_EQ(AskOverSecond(0), NFS4_OK);
  EXPECT_EQ(AskOverSecond(1), NFS4_OK);
}

// ---- chains with a request that is refused or lost before it can be judged

// Makes the directories a/x and a/b/x. A chain looks up "a", then "b", and removes "x".
class BrokenChainTest : public BoundOrderTest {
 protected:
  BrokenChainTest() {
    OverFirst();
    for (const std::string_view path : {"a", "a/x", "a/b", "a/b/x"}) Make(path);
  }
  void Make(std::string_view path) {
    const size_t slash = path.rfind('/');
    const std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
    const CREATE4args make{.objtype = createtype4(NF4DIR, xdr::Void()), .objname = name, .createattrs = {}};
    nfsstat4 status{};
    if (path == name) {
      status = Ask(Plain(0, NOCHAIN, PutRoot(), Op(OP_CREATE, make)));
    } else if (path.substr(0, slash) == "a") {
      status = Ask(Plain(0, NOCHAIN, PutRoot(), LookUp("a"), Op(OP_CREATE, make)));
    } else {
      status = Ask(Plain(0, NOCHAIN, PutRoot(), LookUp("a"), LookUp("b"), Op(OP_CREATE, make)));
    }
    EXPECT_EQ(status, NFS4_OK);
  }
  void Begin() { EXPECT_EQ(Ask(Plain(0, CHAINBEGIN, PutRoot(), LookUp("a"))), NFS4_OK); }
  rpc::Message End() { return Plain(2, CHAINEND, Op(OP_REMOVE, REMOVE4args{"x"})); }
  void ExpectNothingRemoved() {
    EXPECT_EQ(Ask(Plain(0, NOCHAIN, PutRoot(), LookUp("a"), LookUp("x"))), NFS4_OK);
    EXPECT_EQ(Ask(Plain(0, NOCHAIN, PutRoot(), LookUp("a"), LookUp("b"), LookUp("x"))), NFS4_OK);
  }
};

TEST_F(BrokenChainTest, ARequestWithAnImpossibleStreamBreaksIt) {
  Begin();
  EXPECT_EQ(Ask(Plain(99, CHAINCONTINUE, LookUp("b"))), NFS4ERR_SESS01_BADSTREAM);
  EXPECT_EQ(Ask(End()), NFS4ERR_SESS01_CHAIN_BROKEN);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, ARequestWithABusyStreamBreaksIt) {
  const rpc::Message write = Write(1, "data");
  const auto place = Arrive();
  server.Preview(write);
  Begin();
  EXPECT_EQ(Ask(Plain(1, CHAINCONTINUE, LookUp("b"))), NFS4ERR_SESS01_STREAM_INUSE);
  EXPECT_EQ(Ask(End()), NFS4ERR_SESS01_CHAIN_BROKEN);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, ARequestWithAnUnknownChannelBreaksIt) {
  Begin();
  EXPECT_EQ(Ask(server.Encode(1, Control(77, 1, CHAINCONTINUE), LookUp("b"))), NFS4ERR_SESS01_BADCHANNEL);
  EXPECT_EQ(Ask(End()), NFS4ERR_SESS01_CHAIN_BROKEN);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, ARequestThatIsTooLongBreaksIt) {
  Begin();
  const std::string name(5000, 'b');
  EXPECT_EQ(Ask(Plain(1, CHAINCONTINUE, LookUp(name))), NFS4ERR_TOOSMALL);
  EXPECT_EQ(Ask(End()), NFS4ERR_SESS01_CHAIN_BROKEN);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, ARequestThatIsNeverJudgedBreaksIt) {
  Begin();
  std::optional<rpc::CallOrder::Place> lost;
  Plain(1, CHAINCONTINUE, LookUp("b"));
  lost.emplace(Arrive());
  rpc::Message end = End();
  const auto place = Arrive(Lateness::kArguments);
  const bool& ended = server.Begin(std::move(end));
  EXPECT_FALSE(ended);
  lost.reset();
  EXPECT_TRUE(ended);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, AMalformedRequestBreaksIt) {
  Begin();
  rpc::Message malformed = server.EncodeTagged(1, "\xff", Control(channel_, 1, CHAINCONTINUE), LookUp("b"));
  std::optional<rpc::CallOrder::Place> place(Arrive(Lateness::kArguments));
  EXPECT_EQ(Ask(std::move(malformed)), NFS4ERR_INVAL);
  place.reset();
  rpc::Message end = End();
  place.emplace(Arrive(Lateness::kArguments));
  EXPECT_EQ(Ask(std::move(end)), NFS4ERR_SESS01_CHAIN_BROKEN);
  ExpectNothingRemoved();
}

TEST_F(BrokenChainTest, ARequestAfterTheLossOfItsConnectionIsNotExecuted) {
  Begin();
  first.way->Disconnect();
  EXPECT_EQ(Ask(End()), NFS4ERR_SESS01_NOT_BOUND);
}

TEST_F(BrokenChainTest, AnotherBindingOfTheConnectionDoesNotConcernIt) {
  Begin();
  rpc::Message bind = server.Encode(1, Op(OP_SESSION_BIND, BindArguments(session_, BACK)));
  std::optional<rpc::CallOrder::Place> place(Arrive(Lateness::kArguments));
  EXPECT_EQ(Ask(std::move(bind)), NFS4ERR_SESS01_BADBIND) << "operations came before";
  place.reset();
  EXPECT_EQ(Ask(Plain(2, CHAINEND, LookUp("b"))), NFS4_OK);
}

// ---- the end of a session

TEST_F(BoundOrderTest, ARequestThatWasJudgedBeforeTheEndOfItsSessionIsNotExecuted) {
  OverFirst();
  rpc::Message write = Write(0, "data");
  const auto place = Arrive();
  server.Preview(write);
  OverSecond();
  EXPECT_EQ(RunOver(second, Control(other_channel_, 1), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  OverFirst();
  EXPECT_EQ(Ask(std::move(write)), NFS4ERR_SESS01_NOT_BOUND);
  EXPECT_EQ(ContentsOf("file"), "");
}

TEST_F(BoundOrderTest, ARefusedRequestInTheNameOfALiveChannelDoesNotCloseIt) {
  OverSecond();
  EXPECT_EQ(RunOver(second, Control(channel_, 99), PutRoot()).status, NFS4ERR_SESS01_BADSTREAM);
  EXPECT_TRUE(first.way->connected());
}

// The first execution changes nothing and returns data, so that its reply is not kept. The client has had the answer of
// the first retry when a second copy arrives.
TEST_F(BoundOrderTest, ALateCopyOfARequestThatChangedNothingChangesNothing) {
  OverFirst();
  const nfs_fh4 file = MakeFile("data", "contents");
  const auto request = [&] {
    return server.Encode(1, Control(channel_, 0), PutFh(file),
                         Op(OP_READ, READ4args{.stateid = {}, .offset = 0, .count = 4}), PutRoot(), LookUp("guard"),
                         PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"}));
  };
  EXPECT_EQ(Ask(request()), NFS4ERR_NOENT);
  const uint32_t xid = server.last_xid;
  OverSecond();
  server.last_xid = xid - 1;
  EXPECT_EQ(Ask(request()), NFS4ERR_NOENT);
  MakeFile("guard");
  server.last_xid = xid - 1;
  EXPECT_EQ(Ask(request()), NFS4ERR_SESS01_UNKNOWN_FATE);
  EXPECT_TRUE(AttributesOf("file"));
}

// ---- others

TEST_F(BoundOrderTest, RequestsDoNotWaitForCallsThatAreNotOfTheSession) {
  OverFirst();
  rpc::Message other = server.Encode(0, PutRoot());
  const auto other_place = Arrive(Lateness::kArguments);
  EXPECT_EQ(Ask(std::move(other)), NFS4ERR_MINOR_VERS_MISMATCH);
  rpc::Message request = Plain(0, NOCHAIN, PutRoot());
  const auto place = Arrive(Lateness::kArguments);
  EXPECT_TRUE(server.Begin(std::move(request)));
}

}  // namespace
}  // namespace penstock::nfs::v4
