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

TEST(ResponderCredits, KeepReceivesPostedWhenTheLimitFalls) {
  ResponderCredits credits(32);
  const uint32_t receives = credits.receives_needed();
  EXPECT_GE(receives, 32u);
  credits.set_limit(8);
  EXPECT_EQ(credits.receives_needed(), receives);
  credits.set_limit(64);
  EXPECT_GE(credits.receives_needed(), 64u);
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
