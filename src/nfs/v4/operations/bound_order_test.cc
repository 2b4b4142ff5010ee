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
