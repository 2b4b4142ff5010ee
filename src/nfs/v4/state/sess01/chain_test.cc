#include "nfs/v4/state/sess01/chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::nfs::v4::sess01 {
namespace {

using nfs4::CHAINBEGIN;
using nfs4::CHAINCONTINUE;
using nfs4::CHAINEND;
using nfs4::NFS4_OK;
using nfs4::NFS4ERR_SESS01_CHAIN_BROKEN;
using nfs4::NFS4ERR_SESS01_CHAIN_INVALID;
using nfs4::NOCHAIN;
using Turn = ChainRun::Turn;

class ChainTest : public testing::Test {
 protected:
  nfs4::nfsstat4 Refusal(nfs4::ChainFlags flag, bool retry = false) {
    const auto judged = chain_.Judge(flag, retry);
    return judged ? NFS4_OK : judged.error();
  }
  // Judges a request that must become part of a chain.
  Chain::Judged Join(nfs4::ChainFlags flag) {
    const auto judged = chain_.Judge(flag, false);
    EXPECT_TRUE(judged && judged->run);
    return judged.value_or(Chain::Judged{});
  }
  static Turn TurnOf(const Chain::Judged& request) { return request.run->TurnOf(request.place); }
  static void Finish(const Chain::Judged& request, bool complete = true) {
    ASSERT_EQ(TurnOf(request), Turn::kRun);
    request.run->Finish(request.place, complete, {});
  }

  Chain chain_;
};

// X15, §2.7: every state of a chain, every flag, for new requests and retries.
TEST_F(ChainTest, JudgesEachFlagInEachState) {
  enum class State { kNone, kOpen, kBroken };
  struct Case {
    State state;
    nfs4::ChainFlags flag;
    nfs4::nfsstat4 expected;
    bool in_chain;
    State after;
  };
  const Case cases[] = {
      {State::kNone, NOCHAIN, NFS4_OK, false, State::kNone},
      {State::kNone, CHAINBEGIN, NFS4_OK, true, State::kOpen},
      {State::kNone, CHAINCONTINUE, NFS4ERR_SESS01_CHAIN_INVALID, false, State::kNone},
      {State::kNone, CHAINEND, NFS4ERR_SESS01_CHAIN_INVALID, false, State::kNone},
      {State::kOpen, NOCHAIN, NFS4_OK, false, State::kNone},
      {State::kOpen, CHAINBEGIN, NFS4ERR_SESS01_CHAIN_INVALID, false, State::kOpen},
      {State::kOpen, CHAINCONTINUE, NFS4_OK, true, State::kOpen},
      {State::kOpen, CHAINEND, NFS4_OK, true, State::kNone},
      {State::kBroken, NOCHAIN, NFS4_OK, false, State::kNone},
      {State::kBroken, CHAINBEGIN, NFS4ERR_SESS01_CHAIN_INVALID, false, State::kBroken},
      {State::kBroken, CHAINCONTINUE, NFS4ERR_SESS01_CHAIN_BROKEN, false, State::kBroken},
      {State::kBroken, CHAINEND, NFS4ERR_SESS01_CHAIN_BROKEN, false, State::kNone},
  };
  // Only a chain that is open accepts CHAINCONTINUE, and only a chain that is over accepts CHAINBEGIN.
  const auto state_of = [](Chain chain) {
    if (!chain.open()) return State::kNone;
    return chain.Judge(CHAINCONTINUE, false) ? State::kOpen : State::kBroken;
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(std::to_string(static_cast<int>(each.state)) + " " + std::string(XdrName(each.flag)));
    for (const bool by_loss : {false, true}) {
      for (const bool retry : {false, true}) {
        Chain chain;
        if (each.state != State::kNone) {
          const auto begin = chain.Judge(CHAINBEGIN, false);
          ASSERT_TRUE(begin);
          if (each.state == State::kBroken && by_loss) chain.Lose();
          if (each.state == State::kBroken && !by_loss) begin->run->Finish(0, false, {});
        }
        const auto judged = chain.Judge(each.flag, retry);
        if (retry) {
          const bool alone = each.flag == NOCHAIN || each.flag == CHAINBEGIN;
          EXPECT_EQ(judged ? NFS4_OK : judged.error(), alone ? NFS4_OK : NFS4ERR_SESS01_CHAIN_BROKEN);
          EXPECT_TRUE(!judged || !judged->run);
          EXPECT_EQ(state_of(chain), each.state) << "a retry leaves the chain of the channel unchanged";
        } else {
          EXPECT_EQ(judged ? NFS4_OK : judged.error(), each.expected);
          EXPECT_EQ(judged && judged->run, each.in_chain);
          EXPECT_EQ(state_of(chain), each.after);
        }
      }
    }
  }
}

TEST_F(ChainTest, RunsRequestsInTheSequenceOfArrival) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE), third = Join(CHAINEND);
  EXPECT_EQ(TurnOf(first), Turn::kRun);
  EXPECT_EQ(TurnOf(second), Turn::kWait);
  EXPECT_EQ(TurnOf(third), Turn::kWait);
  Finish(first);
  EXPECT_EQ(TurnOf(second), Turn::kRun);
  EXPECT_EQ(TurnOf(third), Turn::kWait);
  Finish(second);
  Finish(third);
}

TEST_F(ChainTest, AnIncompleteRequestBreaksTheChain) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE), third = Join(CHAINEND);
  Finish(first, /*complete=*/false);
  EXPECT_EQ(TurnOf(second), Turn::kBroken);
  EXPECT_EQ(TurnOf(third), Turn::kBroken);
}

TEST_F(ChainTest, AnIncompleteRequestInTheMiddleSparesTheEarlierOnes) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE), third = Join(CHAINCONTINUE);
  Finish(first);
  Finish(second, /*complete=*/false);
  EXPECT_EQ(TurnOf(third), Turn::kBroken);
  EXPECT_EQ(Refusal(CHAINCONTINUE), NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_EQ(Refusal(CHAINEND), NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_EQ(Refusal(CHAINBEGIN), NFS4_OK);
}

TEST_F(ChainTest, LosingTheChannelBreaksTheChainAndSparesTheRequestUnderWay) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE);
  ASSERT_EQ(TurnOf(first), Turn::kRun);
  chain_.Lose();
  EXPECT_EQ(TurnOf(second), Turn::kBroken);
  first.run->Finish(first.place, true, {});
  EXPECT_EQ(TurnOf(second), Turn::kBroken);
}

TEST_F(ChainTest, ARequestThatWasNeverJudgedBreaksTheChainBehindItAndSparesTheEarlierOnes) {
  const auto first = chain_.Judge(CHAINBEGIN, false), second = chain_.Judge(CHAINCONTINUE, false);
  ASSERT_TRUE(first && second);
  chain_.Miss();
  EXPECT_EQ(chain_.Judge(CHAINCONTINUE, false).error(), NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_EQ(first->run->TurnOf(first->place), ChainRun::Turn::kRun);
  first->run->Finish(first->place, true, {});
  EXPECT_EQ(second->run->TurnOf(second->place), ChainRun::Turn::kRun);
  EXPECT_EQ(chain_.Judge(CHAINEND, false).error(), NFS4ERR_SESS01_CHAIN_BROKEN);
  EXPECT_FALSE(chain_.open());
}

TEST_F(ChainTest, ARefusedRequestEndsOrBreaksTheChainAsItsFlagSays) {
  for (const nfs4::ChainFlags flag : {NOCHAIN, CHAINBEGIN, CHAINCONTINUE, CHAINEND}) {
    Chain chain;
    ASSERT_TRUE(chain.Judge(CHAINBEGIN, false));
    chain.Refuse(flag);
    EXPECT_EQ(chain.open(), flag == CHAINBEGIN || flag == CHAINCONTINUE) << static_cast<int>(flag);
    const auto next = chain.Judge(CHAINEND, false);
    const nfs4::nfsstat4 expected = flag == CHAINBEGIN      ? NFS4_OK
                                    : flag == CHAINCONTINUE ? NFS4ERR_SESS01_CHAIN_BROKEN
                                                            : NFS4ERR_SESS01_CHAIN_INVALID;
    EXPECT_EQ(next ? NFS4_OK : next.error(), expected) << static_cast<int>(flag);
  }
}

TEST_F(ChainTest, LosingAChannelWithoutAChainDoesNothing) {
  chain_.Lose();
  EXPECT_EQ(Refusal(CHAINBEGIN), NFS4_OK);
}

TEST_F(ChainTest, ARequestThatIsTakenBackBreaksTheChainBehindIt) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE), third = Join(CHAINEND);
  second.run->Break();
  EXPECT_EQ(TurnOf(third), Turn::kBroken);
  first.run->Finish(first.place, true, {});
  EXPECT_EQ(TurnOf(third), Turn::kBroken) << "the request does not wait for ever";
}

TEST_F(ChainTest, AChainBeginsAsSoonAsTheLastOneHasEnded) {
  const auto first = Join(CHAINBEGIN), end = Join(CHAINEND), next = Join(CHAINBEGIN);
  EXPECT_NE(first.run, next.run);
  EXPECT_EQ(TurnOf(next), Turn::kRun) << "two chains do not wait for each other";
  Finish(first, /*complete=*/false);
  EXPECT_EQ(TurnOf(end), Turn::kBroken);
  EXPECT_EQ(TurnOf(next), Turn::kRun);
  EXPECT_EQ(Refusal(CHAINCONTINUE), NFS4_OK);
}

TEST_F(ChainTest, AnUnchainedRequestEndsTheChainButNotTheRequestsInIt) {
  const auto first = Join(CHAINBEGIN), second = Join(CHAINCONTINUE);
  EXPECT_EQ(Refusal(NOCHAIN), NFS4_OK);
  EXPECT_EQ(Refusal(CHAINCONTINUE), NFS4ERR_SESS01_CHAIN_INVALID);
  EXPECT_EQ(TurnOf(second), Turn::kWait);
  Finish(first);
  Finish(second);
}

TEST_F(ChainTest, ABeginInsideAChainLeavesTheChainUsable) {
  const auto first = Join(CHAINBEGIN);
  EXPECT_EQ(Refusal(CHAINBEGIN), NFS4ERR_SESS01_CHAIN_INVALID);
  const auto second = Join(CHAINEND);
  EXPECT_EQ(first.run, second.run);
  EXPECT_EQ(second.place, 1u);
}

TEST_F(ChainTest, PassesTheFilehandlesOn) {
  const auto handle = [](uint32_t id) { return FileHandle{ExportId(id), {}}; };
  const auto first = Join(CHAINBEGIN), second = Join(CHAINEND), other = Join(CHAINBEGIN);
  EXPECT_EQ(first.run->filehandles(), ChainRun::Filehandles());
  first.run->Finish(first.place, true, {handle(1), handle(2)});
  EXPECT_EQ(second.run->filehandles(), (ChainRun::Filehandles{handle(1), handle(2)}));
  EXPECT_EQ(other.run->filehandles(), ChainRun::Filehandles()) << "the filehandles do not leave their chain";
}

TEST_F(ChainTest, AnOpenChainRunsForEver) {
  auto request = Join(CHAINBEGIN);
  for (int i = 0; i < 100'000; ++i) {
    Finish(request);
    request = Join(CHAINCONTINUE);
  }
  EXPECT_EQ(request.place, 100'000u);
  EXPECT_EQ(request.run.use_count(), 2);
}

}  // namespace
}  // namespace penstock::nfs::v4::sess01
