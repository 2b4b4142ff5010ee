// Tests of chains: COMPOUNDs that are larger than the sizes of the channel (§2.7).
#include "client/nfs4/sess01/bound_session_test_fixture.h"

namespace penstock::client::v4::sess01 {
namespace {

using testing::HasSubstr;

class BoundChainTest : public BoundSessionTest {
 protected:
  BoundChainTest() { server.size = 900; }
};

TEST_F(BoundChainTest, SplitsALargeCompound) {
  Establish();
  server.flags.clear();
  EXPECT_TRUE(RemoveLongNames());
  EXPECT_EQ(server.lookups, 3);
  EXPECT_EQ(server.removes, 1);
  using enum nfs4::ChainFlags;
  ASSERT_GE(server.flags.size(), 2u);
  EXPECT_EQ(server.flags.front(), CHAINBEGIN);
  EXPECT_EQ(server.flags.back(), CHAINEND);
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(server.flags.back(), NOCHAIN);
}

TEST_F(BoundChainTest, SendsALargeCompoundWholeIfItMayNotChain) {
  options.chain = false;
  Establish();
  EXPECT_TRUE(RemoveLongNames());
  EXPECT_EQ(std::ranges::count(server.flags, nfs4::ChainFlags::NOCHAIN), std::ssize(server.flags));
}

TEST_F(BoundChainTest, ManyChainsAndOtherRequestsGetTheirTurns) {
  options.channels = 2;
  server.total_requests = 3;
  server.latency = 1ms;
  Establish();
  const std::string name(200, 'n');
  const nfs4::LOOKUP4args look{nfs4::component4(name)};
  outcomes = std::vector<Outcome>(30);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (i % 2 == 0) {
      Start(std::tuple(look, look, look, look), outcomes[i]);
    } else {
      Start(std::tuple(nfs4::REMOVE4args{"name"}), outcomes[i]);
    }
  }
  ExpectAllToSucceed();
  EXPECT_EQ(server.lookups, 60);
  EXPECT_EQ(server.removes, 15);
}

TEST_F(BoundChainTest, RepeatsABrokenChainThatHasChangedNothing) {
  Establish();
  server.breaks_chains = true;
  Outcome outcome;
  const std::string name(200, 'n');
  const nfs4::LOOKUP4args look{nfs4::component4(name)};
  Start(std::tuple(look, look, look, nfs4::REMOVE4args{name}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.lookups > 0; }));
  server.breaks_chains = false;
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome);
  EXPECT_EQ(server.removes, 1);
}

TEST_F(BoundChainTest, ReportsABrokenChainThatHasChangedSomething) {
  Establish();
  server.breaks_chains = true;
  EXPECT_THAT(RemoveLongNames(0).error().message, HasSubstr("in the middle of a chain"));
  EXPECT_EQ(server.removes, 1);
  server.breaks_chains = false;
}

TEST_F(BoundChainTest, DoesNotRepeatAChainOfWhichARequestMayHaveChangedSomething) {
  Establish();
  server.latency = 5ms;
  server.faults = {Fault::kNone, Fault::kCallLost};
  // The first LOOKUP, and the retries of the two others, are harmless. REMOVE is not.
  constexpr auto kInUse = nfsstat4::NFS4ERR_SESS01_STREAM_INUSE;
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE, kInUse, kInUse, kInUse};
  const Result<void> result = RemoveLongNames();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("cannot tell whether it has executed it"));
  EXPECT_EQ(server.removes, 0);
}

TEST_F(BoundChainTest, ALostConnectionInTheMiddleOfAChain) {
  for (const Fault fault : {Fault::kCallLost, Fault::kReplyLost}) {
    SCOPED_TRACE(static_cast<int>(fault));
    if (!bound) Establish();
    server.removes = 0;
    server.faults = {Fault::kNone, fault};
    const Result<void> result = RemoveLongNames();
    // The last request has the REMOVE. If it was executed, its reply comes with the retry.
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_EQ(server.removes, 1);
  }
}

}  // namespace
}  // namespace penstock::client::v4::sess01
