#include "client/nfs4/sess01/bound_lease.h"

#include <gtest/gtest.h>

namespace penstock::client::v4::sess01 {
namespace {

using Step = BoundLease::Step;
using namespace std::chrono_literals;

constexpr Instance kFirst{std::byte{1}};
constexpr Instance kSecond{std::byte{2}};

class BoundLeaseTest : public testing::Test {
 protected:
  void Create(uint64_t session = 7) {
    lease.HandleCreated({.sessionid = session, .persist = true, .totalrequests = 4});
  }
  void Establish() {
    Create();
    lease.HandleBackBound();
    lease.HandleInstance(kFirst, lease.generation());
    lease.HandleBound();
    lease.HandleReclaimed(lease.epoch());
  }
  BoundLease lease;
};

TEST_F(BoundLeaseTest, TakesTheStepsInTheirOrder) {
  EXPECT_EQ(lease.next(), Step::kCreate);
  EXPECT_FALSE(lease.has_session());
  Create();
  EXPECT_EQ(lease.next(), Step::kBindBack);
  EXPECT_EQ(lease.session(), 7u);
  EXPECT_EQ(lease.total_requests(), 4u);
  EXPECT_TRUE(lease.persists());
  lease.HandleBackBound();
  EXPECT_EQ(lease.next(), Step::kBind);
  lease.HandleBound();
  EXPECT_EQ(lease.next(), Step::kReclaim);
  lease.HandleReclaimed(lease.epoch());
  EXPECT_TRUE(lease.ready());
}

TEST_F(BoundLeaseTest, AnUnknownSessionBeginsAnewWithALaterEpoch) {
  Establish();
  const uint64_t generation = lease.generation(), epoch = lease.epoch();
  lease.HandleLost(generation);
  EXPECT_EQ(lease.next(), Step::kCreate);
  Create(8);
  EXPECT_GT(lease.generation(), generation);
  EXPECT_GT(lease.epoch(), epoch);
  lease.HandleLost(generation);
  EXPECT_EQ(lease.next(), Step::kBindBack) << "the loss of the earlier session is no news";
}

TEST_F(BoundLeaseTest, ARestartThatKeepsTheSessionLosesTheState) {
  Establish();
  const uint64_t generation = lease.generation(), epoch = lease.epoch();
  lease.HandleInstance(kFirst, generation);
  EXPECT_TRUE(lease.ready());
  lease.HandleInstance(std::nullopt, generation);
  EXPECT_TRUE(lease.ready());
  lease.HandleInstance(kSecond, generation);
  EXPECT_EQ(lease.next(), Step::kReclaim);
  EXPECT_EQ(lease.generation(), generation);
  EXPECT_GT(lease.epoch(), epoch);
  lease.HandleReclaimed(epoch);
  EXPECT_EQ(lease.next(), Step::kReclaim) << "the state of the later epoch is not reclaimed yet";
  lease.HandleReclaimed(lease.epoch());
  EXPECT_TRUE(lease.ready());
}

TEST_F(BoundLeaseTest, IgnoresTheInstanceOfAnEarlierSession) {
  Establish();
  lease.HandleInstance(kSecond, lease.generation() - 1);
  EXPECT_TRUE(lease.ready());
}

TEST_F(BoundLeaseTest, AnExecutedRequestRenewsTheLease) {
  Establish();
  const TimePoint at = TimePoint{} + 5s;
  lease.HandleExecuted(lease.generation(), at);
  EXPECT_EQ(lease.renewed_at(), at);
  lease.HandleExecuted(lease.generation(), at - 1s);
  EXPECT_EQ(lease.renewed_at(), at);
  lease.HandleExecuted(lease.generation() - 1, at + 1s);
  EXPECT_EQ(lease.renewed_at(), at);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
