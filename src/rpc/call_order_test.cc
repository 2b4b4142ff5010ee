#include "rpc/call_order.h"

#include <gtest/gtest.h>

#include <optional>

namespace penstock::rpc {
namespace {

class CallOrderTest : public ::testing::Test {
 protected:
  // Starts a wait, and returns a flag that becomes true when it has ended.
  const bool& Wait(uint32_t xid, uint64_t subject) {
    bool& ended = ended_.emplace_back(false);
    Spawn([](CallOrder& order, Xid waiting, uint64_t file, bool& out) -> Task<void> {
      co_await order.WaitForEarlier(waiting, file);
      out = true;
    }(order_, Xid(xid), subject, ended));
    return ended;
  }

  CallOrder order_;
  std::list<bool> ended_;
};

constexpr uint64_t kFile = 7, kOther = 8;

TEST_F(CallOrderTest, DoesNotWaitWithoutEarlierCalls) { EXPECT_TRUE(Wait(1, kFile)); }

TEST_F(CallOrderTest, WaitsForAnEarlierCallWithUnknownSubject) {
  std::optional<CallOrder::Place> earlier(order_.Enter(Xid(1)));
  const bool& ended = Wait(2, kFile);
  EXPECT_FALSE(ended);
  earlier.reset();
  EXPECT_TRUE(ended);
}

TEST_F(CallOrderTest, WaitsForCallsOnTheSameFileOnly) {
  std::optional<CallOrder::Place> same(order_.Enter(Xid(1)));
  const CallOrder::Place other = order_.Enter(Xid(2));
  const bool& ended = Wait(3, kFile);
  order_.NoteSubject(Xid(2), kOther);
  order_.NoteSubject(Xid(1), kFile);
  EXPECT_FALSE(ended);
  same.reset();
  EXPECT_TRUE(ended);
}

TEST_F(CallOrderTest, DoesNotWaitForLaterCalls) {
  std::optional<CallOrder::Place> first(order_.Enter(Xid(1)));
  const CallOrder::Place waiting = order_.Enter(Xid(2));
  const CallOrder::Place later = order_.Enter(Xid(3));
  const bool& ended = Wait(2, kFile);
  const bool& later_ended = Wait(3, kFile);
  first.reset();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(later_ended) << "it arrived after the call that waited";
}

TEST_F(CallOrderTest, DoesNotWaitForCallsThatArriveMeanwhile) {
  std::optional<CallOrder::Place> first(order_.Enter(Xid(1)));
  const bool& ended = Wait(2, kFile);
  const CallOrder::Place later = order_.Enter(Xid(3));
  first.reset();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace penstock::rpc
