#include "chain_world.h"

#include <gtest/gtest.h>

#include "protocol/nfs4_sess01.h"

namespace penstock::explorer {
namespace {

using nfs::v4::sess01::Chain;
using nfs::v4::sess01::ChainRun;

// Brings a chain into a state by the event that leads to it: a request that ends so, or the loss of the channel.
struct Prepared {
  Chain chain;
  ChainState state = ChainState::kNone;
};

Prepared Prepare(bool begins, RequestEnd end) {
  Prepared prepared;
  if (!begins) return prepared;
  const auto first = prepared.chain.Judge(nfs4::CHAINBEGIN, false);
  EXPECT_TRUE(first && first->run);
  if (!first || !first->run) return prepared;
  if (end == RequestEnd::kLoss) {
    prepared.chain.Lose();
  } else {
    EXPECT_EQ(first->run->TurnOf(first->place), ChainRun::Turn::kRun);
    first->run->Finish(first->place, end == RequestEnd::kSuccess, {});
  }
  prepared.state = StateAfter(ChainState::kOpen, end);
  return prepared;
}

// Tells the state of a chain from outside, by requests that a copy of it judges.
ChainState StateOf(Chain chain) {
  if (!chain.open()) return ChainState::kNone;
  return chain.Judge(nfs4::CHAINCONTINUE, false) ? ChainState::kOpen : ChainState::kBroken;
}

TEST(ChainTableTest, EachStateFlagAndEndIsRuledAsSpecified) {
  using Kind = ChainRuling::Kind;
  int rulings = 0;
  for (const bool begins : {false, true}) {
    for (const RequestEnd end : {RequestEnd::kSuccess, RequestEnd::kFailure, RequestEnd::kShort, RequestEnd::kLoss}) {
      for (const auto flag : {nfs4::NOCHAIN, nfs4::CHAINBEGIN, nfs4::CHAINCONTINUE, nfs4::CHAINEND}) {
        for (const bool retry : {false, true}) {
          SCOPED_TRACE(testing::Message() << "begins " << begins << " end " << static_cast<int>(end) << " flag "
                                          << XdrName(flag) << " retry " << retry);
          Prepared prepared = Prepare(begins, end);
          const ChainRuling expected = RulingOf(prepared.state, flag, retry);
          const auto judged = prepared.chain.Judge(flag, retry);
          const auto status = judged ? nfs4::NFS4_OK : judged.error();
          EXPECT_EQ(status, expected.kind == Kind::kInvalid  ? nfs4::NFS4ERR_SESS01_CHAIN_INVALID
                            : expected.kind == Kind::kBroken ? nfs4::NFS4ERR_SESS01_CHAIN_BROKEN
                                                             : nfs4::NFS4_OK);
          EXPECT_EQ(judged && judged->run, expected.kind == Kind::kJoins);
          EXPECT_EQ(StateOf(prepared.chain), expected.after);
          ++rulings;
        }
      }
    }
  }
  EXPECT_EQ(rulings, 64);
}

TEST(ChainWorldTest, RequestsOfAChainRunInOrderUntilItBreaks) {
  const ChainReport report = ExploreChains({.channels = 1, .waiting = 3});
  EXPECT_EQ(report.wrong, "") << report.story;
  EXPECT_GT(report.states, 2'000u);
}

TEST(ChainWorldTest, ChainsOfTwoChannelsKeepTheirFilehandlesToThemselves) {
  const ChainReport report = ExploreChains({.channels = 2, .waiting = 2});
  EXPECT_EQ(report.wrong, "") << report.story;
  EXPECT_GT(report.states, 1'000u);
}

TEST(ChainWorldTest, AChainThatIsNotToldOfAFailureGoesOnWithoutARight) {
  const ChainReport report = ExploreChains({.channels = 1, .reports_failures = false});
  EXPECT_NE(report.wrong, "");
  EXPECT_NE(report.story.find("ends incomplete"), std::string::npos) << report.story;
}

}  // namespace
}  // namespace penstock::explorer
