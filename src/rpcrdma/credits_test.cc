#include "rpcrdma/credits.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace penstock::rpcrdma {
namespace {

TEST(RequesterCredits, AllowOneCallBeforeTheFirstReply) {
  RequesterCredits credits(16);
  EXPECT_TRUE(credits.available());
  credits.HandleSent();
  EXPECT_FALSE(credits.available());
  credits.HandleAnswered(8);
  EXPECT_EQ(credits.limit(), 8u);
}

TEST(RequesterCredits, AllowTheLowerOfRequestedAndGrantedCalls) {
  RequesterCredits credits(4);
  credits.HandleSent();
  credits.HandleAnswered(100);
  EXPECT_EQ(credits.limit(), 4u);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(credits.available());
    credits.HandleSent();
  }
  EXPECT_FALSE(credits.available());
  credits.HandleAnswered(2);  // three calls are in flight, and two are allowed
  EXPECT_FALSE(credits.available());
  credits.HandleAnswered(2);
  EXPECT_FALSE(credits.available());
  credits.HandleAnswered(2);
  EXPECT_TRUE(credits.available());
  credits.set_requested(1);
  EXPECT_FALSE(credits.available());
}

TEST(RequesterCredits, ReserveTheLastOfSeveralCreditsForAProbe) {
  RequesterCredits credits(8, true);
  EXPECT_TRUE(credits.available()) << "a single credit is not reserved";
  credits.HandleSent();
  EXPECT_FALSE(credits.available_for_probe());
  credits.HandleAnswered(3);
  credits.HandleSent();
  EXPECT_TRUE(credits.available());
  credits.HandleSent();
  EXPECT_FALSE(credits.available());
  EXPECT_TRUE(credits.available_for_probe());
  credits.HandleSent();
  EXPECT_FALSE(credits.available_for_probe());
}

TEST(RequesterCredits, UseOneUntilTheConnectionIsOpen) {
  RequesterCredits credits(4, false, true);
  credits.HandleSent();
  credits.HandleAnswered(4);
  EXPECT_EQ(credits.requested(), 4u);
  EXPECT_EQ(credits.limit(), 1u);
  credits.Open();
  EXPECT_EQ(credits.limit(), 4u);
}

TEST(RequesterCredits, ReturnFreeCreditsAtOnceAndOthersLater) {
  RequesterCredits credits(8);
  credits.HandleSent();
  credits.HandleAnswered(8);
  for (int i = 0; i < 5; ++i) credits.HandleSent();
  credits.BeginReturn(2);
  int returned = 0;
  const auto return_all = [&] {
    for (; credits.MustReturn(); ++returned) credits.HandleReturned();
  };
  return_all();
  EXPECT_EQ(returned, 3);
  EXPECT_FALSE(credits.EndReturn());
  // These replies left before the server knew of the return.
  for (int i = 0; i < 3; ++i) {
    credits.HandleAnswered(8);
    EXPECT_FALSE(credits.available()) << "calls use no more than the target";
    return_all();
  }
  EXPECT_EQ(returned, 6);
  EXPECT_TRUE(credits.EndReturn());
  EXPECT_EQ(credits.limit(), 2u);
}

TEST(RequesterCredits, AReplyToALaterCallSettlesTheReturnedCredits) {
  RequesterCredits credits(8);
  credits.HandleSent();
  credits.HandleAnswered(8);
  credits.HandleSent();
  credits.BeginReturn(2);
  for (int i = 0; i < 6; ++i) credits.HandleReturned();
  ASSERT_TRUE(credits.EndReturn());
  const uint64_t before = credits.returned();
  credits.HandleSent();
  credits.HandleAnswered(8);  // to the call before the return
  EXPECT_EQ(credits.limit(), 2u);
  credits.HandleAnswered(5, before);
  EXPECT_EQ(credits.limit(), 5u);
}

TEST(RequesterCredits, NeverReturnTheLastCredit) {
  RequesterCredits credits(8);
  credits.BeginReturn(0);
  EXPECT_FALSE(credits.MustReturn());
  EXPECT_TRUE(credits.EndReturn());
  credits.HandleSent();
  credits.HandleAnswered(2);
  credits.BeginReturn(0);
  EXPECT_TRUE(credits.MustReturn());
  credits.HandleReturned();
  EXPECT_FALSE(credits.MustReturn());
  EXPECT_TRUE(credits.EndReturn());
  EXPECT_EQ(credits.limit(), 1u);
}

TEST(RequesterCredits, TreatAGrantOfZeroAsOne) {
  RequesterCredits credits(4);
  credits.HandleSent();
  credits.HandleAnswered(0);
  EXPECT_TRUE(credits.available());
  EXPECT_EQ(credits.limit(), 1u);
}

TEST(RequesterCredits, ReturnTheCreditOfACallThatWasNotSent) {
  RequesterCredits credits(4);
  credits.HandleSent();
  credits.HandleUnsent();
  EXPECT_TRUE(credits.available());
}

TEST(ResponderCredits, GrantTheRequestedNumberUpToTheLimitAndNeverZero) {
  ResponderCredits credits(32);
  EXPECT_EQ(credits.Grant(0), 1u);
  EXPECT_EQ(credits.Grant(16), 16u);
  EXPECT_EQ(credits.Grant(128), 32u);
  credits.set_limit(0);
  EXPECT_EQ(credits.Grant(128), 1u);
}

TEST(ResponderCredits, NeedFewerReceivesWhenTheLimitFalls) {
  ResponderCredits credits(32);
  EXPECT_EQ(credits.receives_needed(), 32 + ResponderCredits::kSlack);
  credits.set_limit(8);
  EXPECT_EQ(credits.receives_needed(), 8 + ResponderCredits::kSlack);
  credits.set_limit(64);
  EXPECT_EQ(credits.receives_needed(), 64 + ResponderCredits::kSlack);
}

TEST(ResponderCredits, ComeBackOneByOne) {
  ResponderCredits credits(8);
  EXPECT_EQ(credits.Grant(100), 8u);
  credits.BeginWithdrawal(6);
  for (const uint32_t left : {7, 6}) {
    EXPECT_TRUE(credits.withdrawing());
    credits.HandleWithdrawn();
    EXPECT_EQ(credits.Grant(100), left);
  }
  EXPECT_FALSE(credits.withdrawing());
  credits.BeginWithdrawal(7);
  EXPECT_FALSE(credits.withdrawing()) << "a higher target";
  credits.BeginWithdrawal(0);
  EXPECT_TRUE(credits.withdrawing());
  credits.set_limit(8);
  EXPECT_FALSE(credits.withdrawing());
  EXPECT_EQ(credits.Grant(100), 8u);
}

TEST(ResponderCredits, APeerReturnsOnlyWhatItHasRequested) {
  ResponderCredits credits(64);
  EXPECT_EQ(credits.Grant(4), 4u);
  credits.BeginWithdrawal(4);
  EXPECT_FALSE(credits.withdrawing());
  EXPECT_EQ(credits.receives_needed(), 4 + ResponderCredits::kSlack);
  EXPECT_EQ(credits.Grant(64), 4u);
  credits.BeginWithdrawal(3);
  EXPECT_TRUE(credits.withdrawing());
  credits.HandleWithdrawn();
  EXPECT_FALSE(credits.withdrawing());
}

TEST(ResponderCredits, APeerMayRequestMoreUpToTheTarget) {
  ResponderCredits credits(64);
  EXPECT_EQ(credits.Grant(4), 4u);
  credits.BeginWithdrawal(32);
  EXPECT_FALSE(credits.withdrawing());
  EXPECT_EQ(credits.Grant(64), 32u);
}

TEST(ResponderCredits, TolerateTheCallsOfAHigherGrant) {
  ResponderCredits credits(4);
  credits.set_limit(1);
  for (uint32_t i = 0; i < 4 + ResponderCredits::kSlack; ++i) EXPECT_TRUE(credits.HandleCall());
  EXPECT_FALSE(credits.HandleCall());
}

TEST(ResponderCredits, DetectAPeerThatExceedsItsCredits) {
  ResponderCredits credits(2);
  for (uint32_t i = 0; i < 2 + ResponderCredits::kSlack; ++i) EXPECT_TRUE(credits.HandleCall());
  EXPECT_FALSE(credits.HandleCall());
  credits.HandleAnswered();
  EXPECT_TRUE(credits.HandleCall());
}

constexpr uint32_t kAsked = 128;

TEST(CreditDemand, KeepsTheFirstCreditsForAPeerWithFewCalls) {
  CreditDemand demand(16, 64);
  EXPECT_EQ(demand.limit(), 16u);
  for (uint32_t i = 0; i < 3 * CreditDemand::kQuietCalls; ++i) ASSERT_EQ(demand.HandleCall(7, kAsked), 16u);
}

TEST(CreditDemand, GrowsToTheMostWithAPeerThatUsesHalfOfItsCredits) {
  CreditDemand demand(16, 50);
  EXPECT_EQ(demand.HandleCall(8, kAsked), 32u);
  EXPECT_EQ(demand.HandleCall(15, kAsked), 32u);
  EXPECT_EQ(demand.HandleCall(16, kAsked), 50u);
  EXPECT_EQ(demand.HandleCall(50, kAsked), 50u);
  CreditDemand one(1, 4);
  EXPECT_EQ(one.HandleCall(1, kAsked), 2u) << "a peer with one credit can use no more";
}

TEST(CreditDemand, GrowsNoFurtherThanThePeerAsks) {
  CreditDemand demand(12, 64);
  EXPECT_EQ(demand.HandleCall(6, 16), 24u);
  EXPECT_EQ(demand.HandleCall(16, 16), 24u);
}

TEST(CreditDemand, ShrinksAfterManyCallsOfWhichFewWereUnderWay) {
  CreditDemand demand(16, 64);
  ASSERT_EQ(demand.HandleCall(8, kAsked), 32u);
  ASSERT_EQ(demand.HandleCall(16, kAsked), 64u);
  const auto calls = [&demand](uint32_t under_way) {
    for (uint32_t i = 0; i < CreditDemand::kQuietCalls; ++i) (void)demand.HandleCall(under_way, kAsked);
    return demand.limit();
  };
  EXPECT_EQ(calls(17), 64u) << "more than a quarter";
  EXPECT_EQ(calls(8), 32u);
  EXPECT_EQ(calls(1), 16u);
  EXPECT_EQ(calls(1), 16u);
}

TEST(CreditDemand, AClientWithAConstantNumberOfCallsKeepsItsCredits) {
  for (uint32_t under_way = 1; under_way <= 64; ++under_way) {
    CreditDemand demand(12, 64);
    const auto call = [&](uint32_t rounds) {
      std::set<uint32_t> limits;
      for (uint32_t i = 0; i < rounds * CreditDemand::kQuietCalls; ++i)
        limits.insert(demand.HandleCall(under_way, kAsked));
      return limits;
    };
    (void)call(4);
    EXPECT_EQ(call(4).size(), 1u) << under_way;
  }
}

TEST(CreditDemand, FollowsTheMostThatAnAdministratorSets) {
  CreditDemand few(16, 64);
  EXPECT_EQ(few.set_most(8), 8u);
  EXPECT_EQ(few.HandleCall(8, kAsked), 8u);
  EXPECT_EQ(few.set_most(32), 16u);
  CreditDemand all(std::numeric_limits<uint32_t>::max(), 64);
  EXPECT_EQ(all.limit(), 64u);
  for (uint32_t i = 0; i < 2 * CreditDemand::kQuietCalls; ++i) ASSERT_EQ(all.HandleCall(1, kAsked), 64u);
  EXPECT_EQ(all.set_most(128), 128u);
}

}  // namespace
}  // namespace penstock::rpcrdma
