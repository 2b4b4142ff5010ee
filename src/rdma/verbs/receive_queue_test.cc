#include "rdma/verbs/receive_queue.h"

#include <gmock/gmock.h>

#include <vector>

namespace penstock::rdma::verbs {
namespace {

TEST(ReceiveQueue, HandsOutNoMoreThanTheAdaptersQueueHolds) {
  ReceiveQueue queue(3);
  for (Context context = 1; context <= 5; ++context) queue.Add({context, {}});
  EXPECT_EQ(queue.due(), 3u);
  for (uint64_t number : {0, 1, 2}) {
    const auto ticket = queue.Post();
    EXPECT_EQ(ticket.number, number);
    EXPECT_EQ(ticket.receive->context, number + 1);
  }
  EXPECT_EQ(queue.due(), 0u);
  PostedReceive receive;
  ASSERT_TRUE(queue.HandleCompleted(0, receive));
  EXPECT_EQ(receive.context, 1u);
  EXPECT_EQ(queue.due(), 1u) << "a place is free for a receive that waits";
}

TEST(ReceiveQueue, CompletesReceivesInTheOrderOfPosting) {
  ReceiveQueue queue(3);
  for (Context context = 1; context <= 3; ++context) queue.Add({context, {}});
  PostedReceive receive;
  EXPECT_FALSE(queue.HandleCompleted(0, receive)) << "the adapter does not have it";
  while (queue.due() > 0) queue.Post();
  EXPECT_FALSE(queue.HandleCompleted(1, receive)) << "receive 0 completes first";
  EXPECT_TRUE(queue.HandleCompleted(0, receive));
  EXPECT_FALSE(queue.HandleCompleted(0, receive)) << "it is completed already";
  EXPECT_TRUE(queue.HandleCompleted(1, receive));
  EXPECT_EQ(receive.context, 2u);
}

TEST(ReceiveQueue, FlushReturnsPostedReceivesThenWaitingOnes) {
  ReceiveQueue queue(2);
  for (Context context = 1; context <= 4; ++context) queue.Add({context, {}});
  while (queue.due() > 0) queue.Post();
  std::vector<Context> flushed;
  queue.Flush([&](const PostedReceive& receive) { flushed.push_back(receive.context); });
  EXPECT_THAT(flushed, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(queue.due(), 0u);
}

}  // namespace
}  // namespace penstock::rdma::verbs
