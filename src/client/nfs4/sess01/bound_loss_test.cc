// Tests of requests that are under way when the server forgets the session. If the server may have executed a change,
// the client must not make it again.
#include "client/nfs4/sess01/bound_session_test_fixture.h"

namespace penstock::client::v4::sess01 {
namespace {

using testing::HasSubstr;

constexpr auto kUnknownFate = static_cast<Status>(nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE);

class BoundLossTest : public BoundSessionTest {
 protected:
  BoundLossTest() { server.latency = 1ms; }

  // Makes a request, and lets the server forget the session as soon as `is_executed` is true. The reply is lost.
  template <class... Operations>
  Result<void> DoAndLoseSession(std::tuple<Operations...> operations, const std::function<bool()>& is_executed) {
    Outcome outcome;
    Start(std::move(operations), outcome);
    EXPECT_TRUE(TurnUntil(loop, is_executed));
    EXPECT_FALSE(outcome);
    server.LoseSession(true);
    EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
    return *std::move(outcome);
  }
};

TEST_F(BoundLossTest, DoesNotRepeatAChangeThatALostSessionMayHaveExecuted) {
  Establish();
  server.faults = {Fault::kReplyLost};
  const Result<void> result =
      DoAndLoseSession(std::tuple(nfs4::REMOVE4args{"name"}), [&] { return server.removes == 1; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, kUnknownFate);
  EXPECT_THAT(result.error().message, HasSubstr("cannot tell whether it has executed it"));
  EXPECT_EQ(server.removes, 1);
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
  EXPECT_EQ(std::ranges::count(server.events, "create"), 2);
}

TEST_F(BoundLossTest, RepeatsARequestThatChangesNoFile) {
  Establish();
  server.faults = {Fault::kReplyLost};
  EXPECT_TRUE(
      DoAndLoseSession(std::tuple(nfs4::LOOKUP4args{nfs4::component4("name")}), [&] { return server.lookups == 1; }));
  EXPECT_EQ(server.lookups, 2);
}

// The change is unknown although the request was lost again over the second connection.
TEST_F(BoundLossTest, RemembersALossOverSeveralConnections) {
  Establish();
  Outcome outcome;
  server.faults = {Fault::kReplyLost, Fault::kCallLost};
  server.control_errors = {nfsstat4::NFS4_OK, nfsstat4::NFS4ERR_SESS01_BADSESSION};
  Start(std::tuple(nfs4::REMOVE4args{"name"}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().status, kUnknownFate);
  EXPECT_EQ(server.removes, 1);
}

// The first four requests use up the credits. The other ones wait, so that the server has not seen them.
TEST_F(BoundLossTest, SendsRequestsThatHadNotLeftInTheNextSession) {
  Establish();
  server.holds_calls = true;
  StartRemoves(20);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.controls == 4; }));
  server.LoseSession(true);
  server.ReleaseCalls();
  EXPECT_TRUE(TurnUntil(
      loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
  const auto failed = std::ranges::count_if(outcomes, [](const Outcome& each) { return !*each; });
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(server.removes, 16);
}

TEST_F(BoundLossTest, ACallThatIsRefusedOverItsFirstConnectionIsSentAgain) {
  Establish();
  server.LoseSession(false);
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

// A change before a failed operation is not made again while the server delays the failed one.
TEST_F(BoundLossTest, DoesNotRepeatAChangeBeforeADelayedOperation) {
  Establish();
  server.lookup_errors = {nfsstat4::NFS4ERR_DELAY};
  const nfs4::LOOKUP4args look{nfs4::component4("name")};
  const Result<void> result = Do(std::tuple(nfs4::REMOVE4args{"name"}, look));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, static_cast<Status>(nfsstat4::NFS4ERR_DELAY));
  EXPECT_EQ(server.removes, 1);
  server.lookup_errors = {nfsstat4::NFS4ERR_DELAY};
  EXPECT_TRUE(Do(std::tuple(look, nfs4::REMOVE4args{"name"})));
  EXPECT_EQ(server.removes, 2);
}

// ---- chains ----

// Each of the four operations is a request of its own.
class BoundChainLossTest : public BoundLossTest {
 protected:
  BoundChainLossTest() { server.size = 900; }
  const std::string name = std::string(200, 'n');
  const nfs4::LOOKUP4args look{nfs4::component4(name)};
};

TEST_F(BoundChainLossTest, DoesNotRepeatAChangeThatALostSessionMayHaveExecuted) {
  Establish();
  server.faults = {Fault::kNone, Fault::kNone, Fault::kNone, Fault::kReplyLost};
  const Result<void> result =
      DoAndLoseSession(std::tuple(look, look, look, nfs4::REMOVE4args{name}), [&] { return server.removes == 1; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, kUnknownFate);
  EXPECT_EQ(server.removes, 1);
}

// The first requests change nothing, and the last one may have been executed.
TEST_F(BoundChainLossTest, DoesNotRepeatAChainWithALaterChangeThatMayHaveBeenExecuted) {
  Establish();
  server.holds_calls = true;
  Outcome outcome;
  Start(std::tuple(look, look, look, nfs4::REMOVE4args{name}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.controls == 4; }));
  server.LoseSession(true);
  server.ReleaseCalls();
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().status, kUnknownFate);
  EXPECT_EQ(server.removes, 0);
}

TEST_F(BoundChainLossTest, RepeatsAChainThatChangesNoFile) {
  Establish();
  server.faults = {Fault::kNone, Fault::kNone, Fault::kNone, Fault::kReplyLost};
  EXPECT_TRUE(DoAndLoseSession(std::tuple(look, look, look, look), [&] { return server.lookups == 4; }));
  EXPECT_EQ(server.removes, 0);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
