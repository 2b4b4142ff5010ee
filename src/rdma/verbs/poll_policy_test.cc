#include "rdma/verbs/poll_policy.h"

#include <gtest/gtest.h>

namespace penstock::rdma::verbs {
namespace {

using Next = PollPolicy::Next;
constexpr Duration kMicrosecond = std::chrono::microseconds(1);

TEST(PollPolicy, SleepsAtOnceIfAnEventBringsNoCompletion) {
  PollPolicy policy;
  policy.HandleWoken(TimePoint());
  EXPECT_EQ(policy.HandlePolled(false, TimePoint()), Next::kSleep);
}

TEST(PollPolicy, PollsAgainForAWindowOfTimeAfterACompletion) {
  PollPolicy policy;
  TimePoint now{};
  policy.HandleWoken(now);
  EXPECT_EQ(policy.HandlePolled(true, now), Next::kPollAgain);
  EXPECT_EQ(policy.HandlePolled(false, now + policy.window() - kMicrosecond), Next::kPollAgain);
  EXPECT_EQ(policy.HandlePolled(false, now + policy.window()), Next::kSleep);
}

TEST(PollPolicy, WindowGrowsWhilePollingFindsCompletionsUpToALimit) {
  PollPolicy policy;
  TimePoint now{};
  policy.HandleWoken(now);
  Duration before = policy.window();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(policy.HandlePolled(true, now), Next::kPollAgain);
    EXPECT_GE(policy.window(), before);
    before = policy.window();
  }
  EXPECT_EQ(before, PollPolicy::kLongest);
}

TEST(PollPolicy, WindowShrinksWhilePollingFindsNoCompletionDownToALimit) {
  PollPolicy policy;
  TimePoint now{};
  for (int i = 0; i < 10; ++i) {
    policy.HandleWoken(now);
    EXPECT_EQ(policy.HandlePolled(true, now), Next::kPollAgain);
    now += policy.window();
    EXPECT_EQ(policy.HandlePolled(false, now), Next::kSleep);
  }
  EXPECT_EQ(policy.window(), PollPolicy::kShortest);
}

}  // namespace
}  // namespace penstock::rdma::verbs
