// Requests of a session of 2004 that wait for each other, and the connections that come and go meanwhile.
// operations/bound_session_test.cc tests the operations.
#include "nfs/v4/state/sess01/bound_sessions.h"

#include <gtest/gtest.h>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4::sess01 {
namespace {

using Outcome = StreamTable::Outcome;
using Turn = ChainRun::Turn;

class BoundSessionsTest : public ClientsTest {
 protected:
  BoundSessionsTest() {
    const rpc::Credential anybody{};
    const auto created = tables_.CreateBound({.verifier = Verifier(1),
                                              .owner = "owner",
                                              .keeps_replies = true,
                                              .requests = 4,
                                              .connection = 1,
                                              .dialect = dialect_},
                                             Principal::Of(anybody), 77, now_);
    EXPECT_TRUE(created);
    for (const uint64_t connection : {uint64_t{1}, uint64_t{2}}) {
      const auto bound = tables_.BindChannel({.session = created->sessionid,
                                              .type = nfs4::OPERATION,
                                              .limits = {.max_request = 4096, .max_response = 4096, .credits = 4},
                                              .connection = {.number = connection},
                                              .credential = anybody},
                                             now_);
      EXPECT_TRUE(bound);
      EXPECT_EQ(bound->channel, ChannelId(static_cast<uint32_t>(connection)));
    }
  }

  // Sends a request over a connection, in the name of a channel.
  Result<BoundSessions::StartedRequest, nfs4::nfsstat4> Send(uint64_t connection, uint32_t channel, uint32_t stream,
                                                             uint32_t xid, nfs4::ChainFlags flag = nfs4::NOCHAIN) {
    return sessions().StartRequest({.channelid = channel, .streamid = stream, .chainflags = flag},
                                   {.xid = rpc::Xid(xid), .digest = xid}, {.number = connection}, nullptr, now_);
  }
  void Finish(const BoundSessions::RequestRef& request) {
    sessions().FinishRequest(request, {.reply = xdr::Message()}, now_);
  }
  BoundSessions& sessions() { return tables_.bound_sessions; }

  const Dialect dialect_{kFactsOfSess01, {}};
};

TEST_F(BoundSessionsTest, ARetryWaitsForTheExecutionAndThenGetsItsReply) {
  const auto first = Send(1, 1, 0, 10);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->outcome, Outcome::kRun);
  const auto retry = Send(2, 1, 0, 10);
  ASSERT_TRUE(retry);
  ASSERT_EQ(retry->outcome, Outcome::kWait);
  EXPECT_TRUE(sessions().TakeEndedWaits().empty());
  Finish(first->request);
  const auto ended = sessions().TakeEndedWaits();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0], retry->wait);
  EXPECT_EQ(Send(2, 1, 0, 10)->outcome, Outcome::kReplay);
}

TEST_F(BoundSessionsTest, TheEndOfASessionEndsTheWaitsOfItsRequests) {
  const auto first = Send(1, 1, 0, 10);
  ASSERT_TRUE(first);
  const auto retry = Send(2, 1, 0, 10);
  ASSERT_EQ(retry->outcome, Outcome::kWait);
  tables_.End(first->client, now_);
  EXPECT_EQ(sessions().TakeEndedWaits().size(), 1u);
  EXPECT_EQ(Send(2, 1, 0, 10).error(), nfs4::NFS4ERR_SESS01_NOT_BOUND);
  Finish(first->request);
}

TEST_F(BoundSessionsTest, ARequestOfAChainWaitsForTheOneBefore) {
  const auto begin = Send(1, 1, 0, 10, nfs4::CHAINBEGIN);
  const auto end = Send(1, 1, 1, 11, nfs4::CHAINEND);
  ASSERT_TRUE(begin && end);
  EXPECT_EQ(sessions().TurnOf(begin->request, nullptr).turn, Turn::kRun);
  const auto turn = sessions().TurnOf(end->request, nullptr);
  ASSERT_EQ(turn.turn, Turn::kWait);
  Finish(begin->request);
  EXPECT_EQ(sessions().TakeEndedWaits(), std::vector{turn.wait});
  EXPECT_EQ(sessions().TurnOf(end->request, nullptr).turn, Turn::kRun);
  Finish(end->request);
}

// The last request of the chain has arrived, so that the chain is no longer the open one of its channel.
TEST_F(BoundSessionsTest, TheLossOfAChannelTakesBackTheRequestsThatWaitInItsChain) {
  const auto begin = Send(1, 1, 0, 10, nfs4::CHAINBEGIN);
  const auto end = Send(1, 1, 1, 11, nfs4::CHAINEND);
  ASSERT_TRUE(begin && end);
  ASSERT_EQ(sessions().TurnOf(end->request, nullptr).turn, Turn::kWait);
  // The retry of the first request closes the channel.
  EXPECT_EQ(Send(2, 1, 0, 10)->outcome, Outcome::kWait);
  EXPECT_EQ(sessions().TakeEndedWaits().size(), 1u);
  const auto turn = sessions().TurnOf(end->request, nullptr);
  EXPECT_EQ(turn.turn, Turn::kBroken);
  EXPECT_TRUE(turn.lost);
  sessions().WithdrawRequest(end->request);
  Finish(begin->request);
  // The request that was taken back counts as never received. It is not executed as a part of a chain.
  const auto retry = Send(2, 1, 1, 11, nfs4::CHAINEND);
  ASSERT_TRUE(retry);
  EXPECT_EQ(retry->outcome, Outcome::kRun);
  EXPECT_EQ(retry->refusal, nfs4::NFS4ERR_SESS01_CHAIN_BROKEN);
  sessions().FinishRequest(retry->request, {.executed = false}, now_);
}

}  // namespace
}  // namespace penstock::nfs::v4::sess01
