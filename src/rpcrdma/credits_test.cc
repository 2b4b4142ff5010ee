#include "rpcrdma/credits.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock::rpcrdma
