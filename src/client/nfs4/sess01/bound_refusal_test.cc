// Tests of servers that refuse to bind connections, or to step up to RDMA. The user must hear the reason soon.
#include "base/log.h"
#include "client/nfs4/sess01/bound_session_test_fixture.h"

namespace penstock::client::v4::sess01 {
namespace {

using testing::HasSubstr;

class BoundRefusalTest : public BoundSessionTest {
 protected:
  // The log belongs to the process.
  ~BoundRefusalTest() override { log::SetSink({}); }
  void Listen() {
    log::SetSink([this](const log::Record& record) { said += std::string(record.message) + "\n"; }, log::Level::kInfo);
  }
  std::string ErrorOfEstablishing() {
    const Result<void> result = TryToEstablish();
    return result ? "" : result.error().message;
  }
  void EstablishWithLargeMessages(uint32_t size) {
    server.largest = max_message = size;
    Establish();
  }

  std::string said;
};

// ---- set-up ----

TEST_F(BoundRefusalTest, ReportsARefusedBackChannelAtOnce) {
  options.back = BackChannelPlace::kOwn;
  for (const auto status :
       {nfsstat4::NFS4ERR_INVAL, nfsstat4::NFS4ERR_TOOSMALL, nfsstat4::NFS4ERR_SESS01_CONTROL_POS}) {
    server.binds.clear();
    server.bind_errors = {status};
    EXPECT_EQ(ErrorOfEstablishing(), "server: back channel: " + Describe(static_cast<Status>(status)));
    EXPECT_EQ(server.binds.size(), 1u);
    EXPECT_EQ(bound->trouble().message, Describe(static_cast<Status>(status)));
    EXPECT_EQ(bound->trouble().number, ErrnoOf(static_cast<Status>(status)));
    TurnFor(loop, 1ms);
    bound.reset();
    channel.reset();
    TurnFor(loop, 1ms);
  }
}

TEST_F(BoundRefusalTest, ReportsABackChannelWithAbsurdLimits) {
  options.back = BackChannelPlace::kOwn;
  server.grant = [](nfs4::SESSIONBIND4resok& given) { given.maxrequests = 0; };
  EXPECT_EQ(ErrorOfEstablishing(), "server: back channel: the server grants a channel no requests");
  EXPECT_EQ(server.binds.size(), 1u);
}

TEST_F(BoundRefusalTest, BelievesThatTheServerBindsNoConnectionAfterFiveRefusals) {
  options.back = BackChannelPlace::kOwn;
  server.bind_errors = std::deque<nfsstat4>(20, nfsstat4::NFS4ERR_SESS01_BADBIND);
  EXPECT_EQ(ErrorOfEstablishing(), "server: back channel: the server does not bind this connection to the session");
  EXPECT_EQ(server.binds.size(), 5u);
}

TEST_F(BoundRefusalTest, ReportsTheRefusalOfALaterChannel) {
  options.channels = 2;
  server.bind_errors = {nfsstat4::NFS4_OK, nfsstat4::NFS4ERR_TOOSMALL};
  EXPECT_EQ(ErrorOfEstablishing(), "server: channel 2 of 2: buffer too small");
}

TEST_F(BoundRefusalTest, ReportsThatTheServerDoesNotStepUp) {
  server.wanted = nfs4::ConnectionMode::RDMA;
  server.step_up_error = "the server refuses";
  EXPECT_EQ(ErrorOfEstablishing(), "server: channel 1 of 1: cannot step up to RDMA: the server refuses");
  EXPECT_EQ(server.binds.size(), 5u);
}

TEST_F(BoundRefusalTest, SaysThatTheServerForgetsEachSession) {
  give_up_after = 250ms;
  server.bind_errors = std::deque<nfsstat4>(1000, nfsstat4::NFS4ERR_SESS01_BADSESSION);
  EXPECT_EQ(ErrorOfEstablishing(), "server: the server does not know the session");
}

// ---- after a lost connection ----

TEST_F(BoundRefusalTest, SaysThatTheServerDoesNotOfferTheDraftAnyMore) {
  Establish();
  server.is_unknown = true;
  server.LoseConnections();
  EXPECT_EQ(Remove().error().message, "name: the server does not offer the sessions of 2004");
  server.is_unknown = false;
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

TEST_F(BoundRefusalTest, ARefusedChannelIsBoundForTheNextRequest) {
  Establish();
  server.bind_errors = {nfsstat4::NFS4ERR_INVAL};
  server.LoseConnections();
  EXPECT_EQ(Remove().error().message, "name: invalid argument");
  EXPECT_TRUE(Remove());
}

// The server may still count connections whose loss it has not noticed.
TEST_F(BoundRefusalTest, WaitsUntilALostChannelCanBeBoundAgain) {
  Establish();
  server.bind_errors = std::deque<nfsstat4>(20, nfsstat4::NFS4ERR_SESS01_BADBIND);
  server.LoseConnections();
  EXPECT_TRUE(Remove());
}

// ---- connections that stay on TCP ----

TEST_F(BoundRefusalTest, SaysThatAConnectionStaysOnTcp) {
  Listen();
  server.wanted = nfs4::ConnectionMode::RDMA;
  server.grants_rdma = false;
  Establish();
  EXPECT_THAT(said, HasSubstr("the connection of channel 1 stays on TCP"));
  EXPECT_TRUE(Remove());
}

TEST_F(BoundRefusalTest, FallsBackToTcpAfterALostConnection) {
  server.wanted = nfs4::ConnectionMode::RDMA;
  server.size = (1 << 20) + (16 << 10);
  EstablishWithLargeMessages((1 << 20) + (64 << 10));
  EXPECT_GT(bound->max_request(), 1u << 20);
  server.grants_rdma = false;
  server.LoseConnections();
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

// ---- what the server does not grant ----

TEST_F(BoundRefusalTest, SaysThatRepliesAreNotKeptOverARestart) {
  Listen();
  server.persists = false;
  Establish();
  EXPECT_THAT(said, HasSubstr("does not keep the replies of the session over a restart"));
}

TEST_F(BoundRefusalTest, SaysWhatPaddingTheServerGrants) {
  Listen();
  server.wanted = nfs4::ConnectionMode::RDMA;
  options.padding = 256;
  server.grant = [](nfs4::SESSIONBIND4resok& given) { given.headerpadsize = 64; };
  Establish();
  EXPECT_THAT(said, HasSubstr("header padding to multiples of 64 octets"));
}

}  // namespace
}  // namespace penstock::client::v4::sess01
