// Tests of how calls share the slots of a session, and of requests that the channel repeats in their slots.
#include <gtest/gtest.h>

#include "client/nfs4/session.h"
#include "client/nfs4/session_test_fixture.h"

namespace penstock::client::v4 {
namespace {

class ImpatientSessionTest : public SessionTest {
 protected:
  ImpatientSessionTest() : SessionTest({.owner = "client", .give_up_after = 2s}) {}
};

TEST_F(SessionTest, CallsShareTheSlots) {
  server.slots = 3;
  server.latency = 2ms;
  Establish();
  StartRemoves(20);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 20);
  EXPECT_EQ(server.most_running, 3u);
}

TEST_F(SessionTest, UsesFewerSlotsIfTheServerAsksForIt) {
  server.latency = 2ms;
  server.target = 0;
  Establish();
  StartRemoves(5);
  ExpectAllToSucceed();
  EXPECT_EQ(server.most_running, 1u);
}

TEST_F(SessionTest, ReusesASlotWithoutReplyWhetherItsRequestWasExecutedOrNot) {
  server.slots = 1;
  Establish();
  for (const auto fault : {FakeServer::Fault::kReplyLost, FakeServer::Fault::kCallLost}) {
    server.faults = {fault};
    EXPECT_FALSE(Remove());
    const int before = server.removes;
    EXPECT_TRUE(Remove());
    EXPECT_EQ(server.removes, before + 1);
  }
  EXPECT_EQ(server.creations, 1);
}

// RFC 8881 §2.10.6.2: no other request may use the slot before the reply has come.
TEST_F(SessionTest, ARepeatedRequestKeepsItsSlotWhileItIsExecuted) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  server.busy = 3;
  Outcome first, second;
  StartRemove(first);
  Start(nfs4::LOOKUP4args{nfs4::component4("name")}, second);
  TurnUntil([&] { return first.has_value() && second.has_value(); });
  EXPECT_TRUE(*first);
  EXPECT_TRUE(*second);
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.lookups, 1);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(SessionTest, DoesNotReuseASlotWhileItsRequestIsExecuted) {
  server.slots = 1;
  Establish();
  server.faults = {FakeServer::Fault::kReplyLost};
  EXPECT_FALSE(Remove());
  server.busy = 2;
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(ImpatientSessionTest, GivesUpARequestThatNeverEnds) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  server.busy = 1000;
  const Result<void> result = Remove();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, static_cast<Status>(nfsstat4::NFS4ERR_DELAY));
  EXPECT_EQ(server.removes, 1);
  server.busy = 0;
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
}

TEST_F(SessionTest, ExecutesAnUncachedRequestAgainIfTheChannelRepeatsIt) {
  server.slots = 1;
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  const Result<void> found = Lookup();
  EXPECT_TRUE(found) << found.error().message;
  EXPECT_EQ(server.lookups, 2);
  EXPECT_EQ(server.creations, 1);
}

TEST_F(SessionTest, DoesNotExecuteACachedRequestAgainIfTheChannelRepeatsIt) {
  Establish();
  server.faults = {FakeServer::Fault::kRepeated};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  // The same holds if the server has not cached the reply, whichever operation reports it.
  server.remove_errors = {nfsstat4::NFS4ERR_RETRY_UNCACHED_REP};
  EXPECT_FALSE(Remove());
  EXPECT_EQ(server.removes, 1);
  server.keeps_replies = false;
  server.faults = {FakeServer::Fault::kRepeated};
  EXPECT_FALSE(Remove());
  EXPECT_EQ(server.removes, 2) << "only the first request was executed";
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.creations, 1);
}

TEST_F(SessionTest, ReplacesSlotsThatDisagreeWithTheServer) {
  Establish();
  // The test advances a slot without the server.
  ASSERT_TRUE(session.slots().Take());
  session.slots().HandleExecuted({0, 2});
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.destroyed, 1);
  EXPECT_EQ(server.creations, 2);
}

}  // namespace
}  // namespace penstock::client::v4
