#include "rdma/completion_queue.h"

#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <utility>

namespace penstock::rdma {
namespace {

class CompletionQueueTest : public testing::Test {
 protected:
  void Start() {
    queue_.Start([this] { ++notifications_; });
  }
  void Add(Context context = 0) { queue_.Add(RequestCompletion(Operation::kSend, context, Status::kSuccess)); }
  size_t Poll() { return queue_.Poll(polled_); }

  CompletionQueue queue_;
  int notifications_ = 0;
  std::array<Completion, 2> polled_;
};

TEST_F(CompletionQueueTest, PollReturnsCompletionsInOrder) {
  for (Context context = 1; context <= 3; ++context) Add(context);
  EXPECT_EQ(Poll(), 2u);
  EXPECT_EQ(polled_[0].context, 1u);
  EXPECT_EQ(polled_[1].context, 2u);
  EXPECT_EQ(Poll(), 1u);
  EXPECT_EQ(polled_[0].context, 3u);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(CompletionQueueTest, NotifiesOnceUntilPollReturnsLessThanItsCallerAskedFor) {
  Start();
  Add();
  queue_.Notify();
  Add();
  queue_.Notify();
  EXPECT_EQ(notifications_, 1);
  EXPECT_EQ(Poll(), 2u);
  Add();
  EXPECT_FALSE(queue_.due()) << "the last Poll() was full, so that the owner must poll again first";
  EXPECT_EQ(Poll(), 1u);
  EXPECT_FALSE(queue_.due()) << "the queue is empty";
  Add();
  EXPECT_TRUE(queue_.due());
  queue_.Notify();
  EXPECT_EQ(notifications_, 2);
}

TEST_F(CompletionQueueTest, StartNotifiesOfEarlierCompletions) {
  Add();
  queue_.Notify();
  EXPECT_FALSE(queue_.due());
  Start();
  EXPECT_TRUE(queue_.due());
  queue_.Notify();
  EXPECT_EQ(notifications_, 1);
}

TEST_F(CompletionQueueTest, TurnCallsSendOnceIfNoNotificationIsDue) {
  int sends = 0;
  queue_.RunTurn([&] { ++sends; });
  EXPECT_EQ(sends, 1);
  EXPECT_EQ(notifications_, 0);
}

TEST_F(CompletionQueueTest, TurnEndsAfterFourNotificationsEvenIfSendAddsMore) {
  queue_.Start([this] {
    ++notifications_;
    while (Poll() == polled_.size()) {
    }
  });
  int sends = 0;
  Add();
  queue_.RunTurn([&] {
    ++sends;
    Add();
  });
  EXPECT_EQ(notifications_, 4);
  EXPECT_EQ(sends, 4);
  EXPECT_TRUE(queue_.due()) << "the provider needs another turn";
}

TEST_F(CompletionQueueTest, CloseDropsCompletionsAndCallback) {
  const auto held = std::make_shared<int>();
  queue_.Start([held] {});
  Add();
  queue_.Close();
  Add();
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(queue_.due());
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(CompletionQueueTest, CloseInsideTheCallbackDropsTheCallbackAfterItReturns) {
  const auto held = std::make_shared<int>();
  queue_.Start([this, held] {
    EXPECT_TRUE(queue_.notifying());
    queue_.Close();
    EXPECT_EQ(held.use_count(), 2);
  });
  Add();
  queue_.Notify();
  EXPECT_FALSE(queue_.notifying());
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CompletionTest, ReceiveReturnsItsBuffer) {
  BufferPool pool;
  const Completion completion = ReceiveCompletion({7, pool.Allocate(16)}, Status::kFlushed);
  EXPECT_EQ(completion.operation, Operation::kReceive);
  EXPECT_EQ(completion.context, 7u);
  EXPECT_EQ(completion.status, Status::kFlushed);
  EXPECT_TRUE(completion.buffer);
}

TEST(CompletionTest, DisconnectCarriesReasonAndDetail) {
  const Completion completion = DisconnectCompletion(DisconnectReason::kPeerClosed, "closed by the peer");
  EXPECT_EQ(completion.operation, Operation::kDisconnected);
  EXPECT_EQ(completion.reason, DisconnectReason::kPeerClosed);
  EXPECT_EQ(completion.detail, "closed by the peer");
}

}  // namespace
}  // namespace penstock::rdma
