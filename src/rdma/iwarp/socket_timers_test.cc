#include "rdma/iwarp/socket_timers.h"

#include <gtest/gtest.h>

namespace penstock::rdma::iwarp {
namespace {

constexpr TimePoint At(int milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }

TEST(SocketTimersTest, NextTimeoutIsTheEarliestDeadline) {
  SocketTimers timers;
  EXPECT_EQ(timers.next_timeout(), std::nullopt);
  timers.Set(SocketTimer::kStall, At(30));
  timers.Set(SocketTimer::kNudge, At(10));
  EXPECT_EQ(timers.next_timeout(), At(10));
  timers.Set(SocketTimer::kNudge, At(40));
  EXPECT_EQ(timers.next_timeout(), At(30)) << "the new deadline replaces the old one";
  timers.Cancel(SocketTimer::kStall);
  EXPECT_EQ(timers.next_timeout(), At(40));
}

TEST(SocketTimersTest, ReturnsExpiredTimersOnceAndInTheOrderOfDeadlines) {
  SocketTimers timers;
  timers.Set(SocketTimer::kNudge, At(20));
  timers.Set(SocketTimer::kDrain, At(10));
  timers.Set(SocketTimer::kClose, At(30));
  EXPECT_EQ(timers.TakeExpired(At(9)), std::nullopt);
  EXPECT_EQ(timers.TakeExpired(At(20)), SocketTimer::kDrain);
  EXPECT_FALSE(timers.is_set(SocketTimer::kDrain));
  EXPECT_EQ(timers.TakeExpired(At(20)), SocketTimer::kNudge);
  EXPECT_EQ(timers.TakeExpired(At(20)), std::nullopt);
  EXPECT_TRUE(timers.is_set(SocketTimer::kClose));
}

TEST(SocketTimersTest, CancelAllLeavesNoDeadline) {
  SocketTimers timers;
  timers.Set(SocketTimer::kClose, At(1));
  timers.Set(SocketTimer::kStall, At(2));
  timers.CancelAll();
  EXPECT_EQ(timers.next_timeout(), std::nullopt);
  EXPECT_EQ(timers.TakeExpired(At(3)), std::nullopt);
}

}  // namespace
}  // namespace penstock::rdma::iwarp
